//! A model module by module, as a table and as metrics.

use rooflens_document::catalogue::{
    MODULE_ACTIVATIONS, MODULE_CACHE, MODULE_FLOPS, MODULE_PARAMETERS,
};
use rooflens_document::{Catalogue, Table, basis, columns};
use rooflens_llm::{Llm, Module, Shape, modules};
use rooflens_schemas::{Metric, Scope};
use rooflens_units::{Bytes, Count, Flops};

use crate::setup::decoded_prompt;

/// Modules on a page: those of three models in one.
pub const ROWS: usize = 60;

/// The modules in the pass that reads one prompt with so many images.
pub fn of_prompt(llm: &Llm, prompt: u64, images: u64) -> Vec<Module> {
    let llm = llm.reading(prompt);
    let shape = Shape {
        batch: 1,
        new: llm
            .sequence
            .unwrap_or_else(|| decoded_prompt(&llm, prompt, images)),
        past: 0,
        logits: 1,
    };
    modules(&llm, shape, images)
}

/// The table of modules.
pub fn table(text: &'static Catalogue, llm: &Llm) -> Table<'static, Module> {
    let parameters = llm.parameters().max(1) as f64;
    let (has_encoders, generates) = (!llm.encoders.is_empty(), llm.generates());
    columns! { Table::new(text, "model_modules"), module: &Module => {
        text "stage" = text.word(module.stage).to_owned(), page if has_encoders;
        name "family" = module.family.clone(), page if has_encoders;
        name "module" = module.name, page;
        count "layers" = module.layers, page;
        count "parameters" = module.parameters, page;
        share "share" = module.parameters as f64 / parameters, page;
        "flops" = module.flops, page;
        "activations" = module.activations, page;
        bytes "cache_bytes" = Some(module.cache).filter(|_| generates), page if generates;
    } }
}

/// The figures of all modules, of each stage and of the model.
pub fn metrics(modules: &[Module], prompt: u64, images: u64) -> Vec<Metric> {
    let basis = &basis!("basis.modules", prompt = prompt, images = images);
    let mut metrics = Vec::new();
    for module in modules {
        let scope = Scope {
            stage: Some(module.stage.to_owned()),
            class: Some(format!("{}.{}", module.family, module.name)),
            ..Scope::default()
        };
        metrics.extend(sums(&[module], &scope, basis));
    }
    for of_stage in modules.chunk_by(|module, next| module.stage == next.stage) {
        let scope = Scope {
            stage: of_stage.first().map(|module| module.stage.to_owned()),
            ..Scope::default()
        };
        metrics.extend(sums(&of_stage.iter().collect::<Vec<_>>(), &scope, basis));
    }
    let all: Vec<&Module> = modules.iter().collect();
    metrics.extend(sums(&all, &Scope::default(), basis));
    metrics
}

fn sums(modules: &[&Module], scope: &Scope, basis: &str) -> [Metric; 4] {
    let modules = || modules.iter();
    let parameters = modules().map(|module| module.parameters);
    let parameters = parameters.fold(0, u64::saturating_add);
    let flops: Flops = modules().map(|module| module.flops).sum();
    let activations: Count = modules().map(|module| module.activations).sum();
    let cache: Bytes = modules().map(|module| module.cache).sum();
    [
        MODULE_PARAMETERS.derived(scope.clone(), parameters as f64, basis),
        MODULE_FLOPS.derived(scope.clone(), flops.0, basis),
        MODULE_ACTIVATIONS.derived(scope.clone(), activations.0, basis),
        MODULE_CACHE.derived(scope.clone(), cache.0, basis),
    ]
}
