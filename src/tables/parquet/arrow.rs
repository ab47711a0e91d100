//! Frames that other libraries take over without a copy, through the stream of Arrow's C interface.

use polars_core::prelude::{ArrowDataType, ArrowField, CompatLevel, DataFrame, PlSmallStr, Series};
use polars_core::utils::arrow::array::{Array, StructArray};
use polars_core::utils::arrow::ffi::{ArrowArrayStream, export_iterator};
use rooflens_document::Dataset;
use rooflens_query::Answer;
use rooflens_session::table::Table;
use rooflens_session::{Session, view};

use super::TablesError;
use super::frame::{Texts, frame, from_answer, of_dataset};

/// Columns in memory.
pub struct Frame(DataFrame);

/// An `ArrowArrayStream` of Arrow's C interface. It keeps the columns alive by itself.
#[repr(transparent)]
pub struct Stream(
    #[allow(dead_code, reason = "the receiver reads it by its address")] ArrowArrayStream,
);

impl Frame {
    /// A data set; its cells have the types that its Parquet file has.
    ///
    /// # Errors
    /// The rows are not of one length, which is a defect.
    pub fn of_dataset(dataset: &Dataset) -> Result<Self, TablesError> {
        of_dataset(dataset).map(Self)
    }

    /// A table of a session.
    ///
    /// # Errors
    /// A column does not fit its type, which is a defect.
    pub fn of_table(session: &Session, table: &dyn Table) -> Result<Self, TablesError> {
        let texts = Texts::new(&session.strings);
        let columns = view::columns(table);
        frame(session, table, (&columns, 0..table.rows()), &texts).map(Self)
    }

    /// The answer of a query.
    ///
    /// # Errors
    /// The rows are not of one length, which is a defect.
    pub fn of_answer(answer: &Answer) -> Result<Self, TablesError> {
        from_answer("answer", answer).map(Self)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.0.height()
    }

    /// Names of the columns.
    pub fn columns(&self) -> Vec<&str> {
        let names = self.0.get_column_names();
        names.into_iter().map(PlSmallStr::as_str).collect()
    }

    /// The columns as a stream of one batch, which shares their memory.
    pub fn stream(&self) -> Stream {
        let columns = self.0.columns().iter();
        let columns: Vec<Series> = columns
            .map(|column| column.as_materialized_series().rechunk())
            .collect();
        let mut fields: Vec<ArrowField> = Vec::new();
        let mut arrays: Vec<Box<dyn Array>> = Vec::new();
        for column in &columns {
            let array = column.to_arrow(0, CompatLevel::newest());
            let name = column.name().clone();
            fields.push(ArrowField::new(name, array.dtype().clone(), true));
            arrays.push(array);
        }
        let dtype = ArrowDataType::Struct(fields);
        let field = ArrowField::new(PlSmallStr::EMPTY, dtype.clone(), false);
        let batch = StructArray::new(dtype, self.rows(), arrays, None).boxed();
        Stream(export_iterator(Box::new(std::iter::once(Ok(batch))), field))
    }
}
