//! Model: what a config alone tells: parameters, FLOPs, cache, weights.

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_document::{Block, Catalogue, Inline, Quantity, SectionContent, Table};
use rooflens_llm::{Llm, kv_bytes_per_token};
use rooflens_predict::{AtContext, Sheet, Size, Stored, layer_table, modules, sheet};
use rooflens_units::Bytes;

/// Where work was measured, utilization says what the model takes.
pub(super) static SECTION: Section = Section { id: "model", show };

/// Kinds of layers on the page.
const ROWS: usize = 24;

/// Tokens of the prompt of which modules are counted.
const PROMPT: u64 = 1024;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut content = SectionContent {
        describes_capture: true,
        ..SectionContent::default()
    };
    let Some(model) = alone(context) else {
        return Ok(content);
    };
    let (model_sheet, text) = (sheet(model), context.text);
    let (sizes, contexts, stored) = (sizes(text, model), contexts(text, model), stored(text));
    let layers = layer_table(text);
    let images = u64::from(!model.encoders.is_empty());
    let module_rows = modules::of_prompt(model, PROMPT, images);
    let module_table = modules::table(text, model);
    let module_caption = words!(
        context,
        "modules.caption",
        prompt = Quantity::count(PROMPT),
        images = (images > 0).then(|| Quantity::count(images)),
    );
    for view in [
        sizes.view(words!(context, "model.sizes"), model_sheet.sizes.len()),
        contexts.view(
            words!(context, "model.contexts"),
            model_sheet.contexts.len(),
        ),
        stored.view(words!(context, "model.stored"), model_sheet.stored.len()),
        layers.view(words!(context, "predict.layer_table"), ROWS),
        module_table.view(module_caption, modules::ROWS),
    ] {
        content.main.push(Block::Table(view));
    }
    content.datasets.push(sizes.rows(&model_sheet.sizes));
    content.datasets.push(contexts.rows(&model_sheet.contexts));
    content.datasets.push(stored.rows(&model_sheet.stored));
    content.datasets.push(layers.rows(&model.layers));
    content.datasets.push(module_table.rows(&module_rows));
    content.metrics = modules::metrics(&module_rows, PROMPT, images);
    content.methods.push(method!(context, "model"));
    content.methods.push(method!(context, "modules"));
    Ok(content)
}

/// The model of a session without anything measured.
fn alone<'a>(context: &Context<'a>) -> Option<&'a Llm> {
    context
        .session
        .model
        .as_ref()
        .filter(|_| !context.session.is_measured())
}

/// The first page: sizes in a sentence, and where times come from.
pub(super) fn first_page(context: &Context<'_>) -> Vec<Block> {
    let Some(model) = alone(context) else {
        return Vec::new();
    };
    let model_sheet = sheet(model);
    let mut blocks = vec![Block::Prose(conclusion(context, model, &model_sheet))];
    blocks.push(Block::Prose(match &context.options.gpu {
        Some(gpu) => say!(
            context,
            "model.next_gpu",
            gpu = Inline::code(format!("\"{gpu}\""))
        ),
        None => say!(context, "model.next"),
    }));
    blocks
}

fn conclusion(context: &Context<'_>, model: &Llm, sheet: &Sheet) -> Vec<Inline> {
    let weights = sheet.stored.first();
    let shortest = sheet.contexts.first();
    let is_mixture = model.outline.experts > 0;
    let cache = model
        .generates()
        .then(|| kv_bytes_per_token(model, Bytes(2.0)))
        .filter(|bytes| *bytes > Bytes::ZERO);
    say!(
        context,
        "model.conclusion",
        family = Inline::code(model.family.as_str()),
        parameters = Inline::strong(Quantity::count(model.parameters()).to_string()),
        active = is_mixture.then(|| Quantity::count(model.active_parameters())),
        weights = weights.map(|stored| stored.bytes),
        format = weights.map(|stored| stored.format.name),
        assumed = weights.filter(|stored| !stored.stated).map(|_| ""),
        cache = cache,
        flops = shortest.map(|row| row.decode.unwrap_or(row.prefill)),
        context = shortest.map(|row| Quantity::count(row.context)),
    )
}

fn sizes(text: &'static Catalogue, model: &Llm) -> Table<'static, Size> {
    let parameters = model.parameters().max(1) as f64;
    columns! { Table::new(text, "model_parameters"), size: &Size => {
        text "part" = text.word(size.part).to_owned(), page;
        count "parameters" = size.parameters, page;
        share "share" = size.parameters as f64 / parameters, page;
        count "active_parameters" = size.active, page if model.outline.experts > 0;
    } }
}

fn contexts(text: &'static Catalogue, model: &Llm) -> Table<'static, AtContext> {
    let generates = model.generates();
    columns! { Table::new(text, "model_contexts"), row: &AtContext => {
        count "context_tokens" = row.context, page;
        Flop "prefill_flops_per_token" = row.prefill, page;
        Flop "decode_flops_per_token" = row.decode, page if generates;
        bytes "sequence_bytes" = Some(row.cache).filter(|_| generates), page if generates;
    } }
}

fn stored(text: &'static Catalogue) -> Table<'static, Stored> {
    columns! { Table::new(text, "model_weights"), row: &Stored => {
        text "weights" = row.format.name, page;
        bytes "weights_bytes" = row.bytes, page;
        text "of_config" = row.stated, page;
    } }
}
