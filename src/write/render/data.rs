//! `data.json`: a page as the PDF's template reads it. `templates/README.md` lists the keys; whoever writes a template
//! relies on them, so the types of the document may change and this must not.

use serde_json::{Value, json};

use super::brand::Brand;
use super::page::{Page, PageBlock, PageSection, place};
use super::paper::clipped;
use super::table::{Head, Table};
use rooflens_diagnostic::Diagnostic;
use rooflens_document::{ActionCard, Block, Finding, Inline, Method, Quantity, Tile};

impl Page {
    /// The page as data, with the look of the organization if it has one.
    pub(crate) fn data(&self, brand: Option<&Brand>) -> Value {
        let sections = self.sections.iter().map(|section| self.section(section));
        let data_quality = self.data_quality.iter().map(|line| self.diagnostic(line));
        json!({
            "words": self.words,
            "lang": self.text.lang().code(),
            "kind": self.kind.name(),
            "brand": brand,
            "cover": {
                "title": self.cover.title,
                "bundle": self.cover.bundle,
                "bundle_id": self.cover.bundle_id,
                "captured_at": self.cover.captured_at,
                "generator": self.generator(),
                "facts": self.cover.facts,
            },
            "summary": self.blocks(&self.summary),
            "notes": self.blocks(&self.notes),
            "sections": sections.collect::<Value>(),
            "data_quality": data_quality.collect::<Value>(),
            "methods": self.methods.iter().map(method).collect::<Value>(),
            "code_points": false,
        })
    }

    fn section(&self, section: &PageSection) -> Value {
        json!({
            "id": section.id,
            "title": section.title,
            "items": self.blocks(&section.blocks),
        })
    }

    fn blocks(&self, blocks: &[PageBlock]) -> Value {
        blocks.iter().map(|block| self.block(block)).collect()
    }

    fn block(&self, block: &PageBlock) -> Value {
        match block {
            Block::Heading(text) => json!({"kind": "heading", "text": text}),
            Block::Prose(text) => json!({"kind": "prose", "text": inlines(text)}),
            Block::Table(table) => self::table(table),
            Block::Chart(figure) => json!({
                "kind": "chart",
                "path": figure.path,
                "title": figure.title,
                "description": figure.description,
                "number": figure.number,
            }),
            Block::Iterations(_) => json!({"kind": "iterations"}),
            Block::Facts(facts) => {
                json!({"kind": "facts", "facts": facts.iter().map(fact).collect::<Value>()})
            }
            Block::List(texts) => json!({"kind": "list", "items": all_inlines(texts)}),
            Block::Bullets(texts) => json!({"kind": "bullets", "items": all_inlines(texts)}),
            Block::Code(code) => json!({"kind": "code", "lines": code.lines().collect::<Value>()}),
            Block::Missing(reason) => json!({"kind": "missing", "reason": reason}),
            Block::Finding(finding) => self.finding(finding),
            Block::Tiles(tiles) => {
                json!({"kind": "tiles", "tiles": tiles.iter().map(tile).collect::<Value>()})
            }
            Block::Actions(cards) => {
                json!({"kind": "actions", "actions": cards.iter().map(action).collect::<Value>()})
            }
        }
    }

    fn finding(&self, finding: &Finding) -> Value {
        let (gain, query) = (finding.gain.as_ref(), finding.query.as_ref());
        let mut evidence = Vec::new();
        for source in &finding.evidence {
            evidence.push(clipped(self.evidence(source)));
        }
        json!({
            "kind": "finding",
            "id": finding.id,
            "title": finding.title,
            "severity": finding.severity.label(),
            "label": self.text.word(finding.severity.label()),
            "statement": inlines(&finding.statement),
            "gain": gain.map(|gain| clipped(self.gain(gain))).unwrap_or_default(),
            "bound": gain.map_or("", |gain| &gain.basis),
            "advice": inlines(finding.advice.as_deref().unwrap_or_default()),
            "next": inlines(finding.next.as_deref().unwrap_or_default()),
            "evidence": evidence,
            "query": inlines(query.map_or(&[], |query| &query.gives)),
            "sql": query.map_or("", |query| &query.sql),
        })
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) -> Value {
        json!({
            "severity": diagnostic.severity.label(),
            "label": self.text.word(diagnostic.severity.label()),
            "message": diagnostic.message,
            "place": clipped(place(diagnostic)),
            "hint": diagnostic.hint,
            "count": self.times(diagnostic),
        })
    }
}

fn tile(tile: &Tile) -> Value {
    let other = |(name, value): &(String, Quantity)| json!([name, value.to_string()]);
    json!({
        "label": tile.label,
        "now": tile.now.to_string(),
        "others": tile.others.iter().map(other).collect::<Value>(),
    })
}

fn action(card: &ActionCard) -> Value {
    json!({
        "what": inlines(&card.what),
        "snippet": card.snippet,
        "facts": card.facts.iter().map(fact).collect::<Value>(),
    })
}

fn table(table: &Table) -> Value {
    json!({
        "kind": "table",
        "dataset": table.dataset,
        "number": table.number,
        "caption": table.caption,
        "size": table.size,
        "columns": table.columns.iter().map(head).collect::<Value>(),
        "rows": table.rows,
        "height": table.height,
        "note": table.note,
    })
}

fn head(head: &Head) -> Value {
    json!({
        "title": head.title,
        "numeric": head.numeric,
        "mono": head.mono,
        "width": head.width,
    })
}

fn method(method: &Method) -> Value {
    json!({"title": method.title, "text": inlines(&method.text)})
}

fn fact((name, value): &(String, Vec<Inline>)) -> Value {
    json!([name, inlines(value)])
}

fn all_inlines(texts: &[Vec<Inline>]) -> Value {
    texts.iter().map(|text| inlines(text)).collect()
}

fn inlines(text: &[Inline]) -> Value {
    text.iter().map(inline).collect()
}

fn inline(inline: &Inline) -> Value {
    match inline {
        Inline::Text(text) => json!({"kind": "text", "text": text}),
        Inline::Code(text) => json!({"kind": "code", "text": text}),
        Inline::Strong(text) => json!({"kind": "strong", "text": text}),
        Inline::Quantity(quantity) => json!({"kind": "quantity", "text": quantity.to_string()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::CHARTS;
    use rooflens_document::report::{Kind, Report};

    #[test]
    fn templates_are_told_of_each_key() {
        let document = include_str!("../../../templates/README.md");
        let (_, document) = document.split_once("## data.json").expect("a chapter");
        let rows = document.lines().skip_while(|line| !line.starts_with("| `"));
        let rows = rows.take_while(|line| line.starts_with("| `"));
        let told: Vec<_> = rows
            .map(|row| row.split('`').nth(1).unwrap_or_default())
            .collect();
        let page = Page::new(&Report::default(), Kind::Report, CHARTS).data(None);
        let mut keys: Vec<_> = page.as_object().expect("an object").keys().collect();
        keys.sort_by_key(|key| told.iter().position(|told| told == key));
        assert_eq!(keys, told);
    }
}
