//! A data set declared once: each column with its name, unit and cell.

use rooflens_schemas::Unit;

use super::dataset::{Cell, Column, Dataset, View};
use super::text::Catalogue;

/// How rows of type `R` become a data set.
pub struct Table<'t, R> {
    text: &'static Catalogue,
    id: &'static str,
    columns: Vec<Col<'t, R>>,
}

struct Col<'t, R> {
    column: Column,
    on_page: bool,
    cell: Box<dyn Fn(&R) -> Cell + 't>,
}

impl<'t, R> Table<'t, R> {
    /// A data set without columns yet; `id` names its file. The catalogue has its title and the headings of columns.
    pub fn new(text: &'static Catalogue, id: &'static str) -> Self {
        Self {
            text,
            id,
            columns: Vec::new(),
        }
    }

    /// Adds a column.
    #[must_use]
    pub fn column<C: Into<Cell>>(
        self,
        id: &'static str,
        unit: Unit,
        cell: impl Fn(&R) -> C + 't,
    ) -> Self {
        self.add(id, unit, Box::new(move |row: &R| cell(row).into()))
    }

    fn add(mut self, id: &'static str, unit: Unit, cell: Box<dyn Fn(&R) -> Cell + 't>) -> Self {
        let column = Column::new(id, self.text.column(self.id, id), unit);
        self.columns.push(Col {
            column,
            on_page: false,
            cell,
        });
        self
    }

    /// Adds a column of words or plain numbers.
    #[must_use]
    pub fn text<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::One, cell)
    }

    /// Adds a column of names from the data, which pages may shorten.
    #[must_use]
    pub fn name<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::One, move |row| match cell(row).into() {
            Cell::Text(text) => Cell::Name(text),
            other => other,
        })
    }

    /// Adds a column of counts.
    #[must_use]
    pub fn count<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Count, cell)
    }

    /// Adds a column of times in nanoseconds.
    #[must_use]
    pub fn time<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Nanoseconds, cell)
    }

    /// Adds a column of bytes.
    #[must_use]
    pub fn bytes<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Bytes, cell)
    }

    /// Adds a column of shares between 0 and 1.
    #[must_use]
    pub fn share<C: Into<Cell>>(self, id: &'static str, cell: impl Fn(&R) -> C + 't) -> Self {
        self.column(id, Unit::Ratio, cell)
    }

    /// Shows the last column on pages, after those that were marked before.
    #[must_use]
    pub fn on_page(self) -> Self {
        self.on_page_if(true)
    }

    /// Shows the last column on pages if there is something to tell apart or to see in it.
    #[must_use]
    pub fn on_page_if(mut self, shown: bool) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.on_page = shown;
        }
        self
    }

    /// Shows all columns so far on pages.
    #[must_use]
    pub fn all_on_page(mut self) -> Self {
        self.columns
            .iter_mut()
            .for_each(|column| column.on_page = true);
        self
    }

    /// Adds columns that several data sets share.
    #[must_use]
    pub fn with(self, more: impl FnOnce(Self) -> Self) -> Self {
        more(self)
    }

    /// The data set of these rows.
    pub fn rows<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> Dataset
    where
        R: 'r,
    {
        let cells = |row: &R| {
            self.columns
                .iter()
                .map(|column| (column.cell)(row))
                .collect()
        };
        Dataset {
            id: self.id,
            title: self.text.title(self.id),
            columns: self
                .columns
                .iter()
                .map(|column| column.column.clone())
                .collect(),
            rows: rows.into_iter().map(cells).collect(),
        }
    }

    /// A view of the first `limit` rows with the columns that are marked for pages.
    pub fn view(&self, caption: impl Into<String>, limit: usize) -> View {
        let shown = self.columns.iter().filter(|column| column.on_page);
        let columns: Vec<&'static str> = shown.map(|column| column.column.id).collect();
        View::new(self.id, caption, &columns, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_and_its_cell_stand_together() {
        let table = Table::<(u64, Option<f64>)>::new(Catalogue::english(), "kernels")
            .count("count", |row| row.0)
            .on_page()
            .share("share", |row| row.1)
            .text("stage", |row| row.0 % 2 == 0)
            .on_page();
        let dataset = table.rows(&[(2, None), (3, Some(0.5))]);
        let ids: Vec<&str> = dataset.columns.iter().map(|column| column.id).collect();
        assert_eq!(ids, ["count", "share", "stage"]);
        assert_eq!(
            dataset.rows[0],
            [Cell::Int(2), Cell::Missing, Cell::Flag(true)]
        );
        assert_eq!(
            dataset.rows[1],
            [Cell::Int(3), Cell::Float(0.5), Cell::Flag(false)]
        );
        assert_eq!(dataset.rows[0][2].plain(), "yes");
        assert_eq!(table.view("Some", 1).columns, ["count", "stage"]);
    }
}
