//! Records what decision-support queries read: TPC-H data in SQLite, queries that scan, and a VFS that notes each page.
//!
//! `platter bench dsw` replays the recording. The data is made by `tpchgen`, whose rows are those of TPC's own `dbgen`. The
//! database is a file without a name, so that nothing is left behind however this ends.

mod queries;
mod schema;
mod vfs;

pub use queries::{QUERIES, Sql, find};

use crate::registered::Store;
use platter_bench::dsw::{BadRecording, Query, Recording};
use std::path::Path;
use vfs::Vfs;

/// Least and largest scale: 1 is a gigabyte of rows.
pub const SCALES: std::ops::RangeInclusive<f64> = 0.001..=10.0;
/// Bytes of a page, SQLite's default.
pub const PAGE_BYTES: u32 = 4096;
/// Memory for pages, SQLite's default, so that a scan reads the disk.
const CACHE_KIB: i64 = 2000;

/// Why nothing was recorded.
#[derive(Debug)]
pub enum RecordError {
    /// The scale, with its value.
    Scale(f64),
    /// The file of the database.
    File(std::io::Error),
    /// SQLite.
    Sqlite(rusqlite::Error),
    /// The reads make no recording.
    Recording(BadRecording),
}

impl std::error::Error for RecordError {}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::Scale(scale) => {
                write!(f, "scale {scale}: give {} to {}", SCALES.start(), SCALES.end())
            }
            RecordError::File(error) => write!(f, "cannot make the database: {error}"),
            RecordError::Sqlite(error) => write!(f, "SQLite: {error}"),
            RecordError::Recording(error) => write!(f, "nothing to record: {error}"),
        }
    }
}

impl From<std::io::Error> for RecordError {
    fn from(error: std::io::Error) -> RecordError {
        RecordError::File(error)
    }
}

impl From<rusqlite::Error> for RecordError {
    fn from(error: rusqlite::Error) -> RecordError {
        RecordError::Sqlite(error)
    }
}

/// The result of a query: its rows, values as text.
pub type Rows = Vec<Vec<String>>;

/// Loads the data into a database in `dir`, runs the queries one after another, each with an empty cache of pages, and returns
/// what they read and their results. `progress` is called with what is done next.
///
/// # Errors
/// A scale out of range, no space in `dir`, or a query that SQLite refuses.
pub fn record(
    dir: &Path,
    scale: f64,
    queries: &[&Sql],
    progress: &mut dyn FnMut(&str),
) -> Result<(Recording, Vec<Rows>), RecordError> {
    if !SCALES.contains(&scale) {
        return Err(RecordError::Scale(scale));
    }
    let vfs = Vfs::new(tempfile::tempfile_in(dir)?);
    progress("loading");
    let loader = vfs.open()?;
    schema::load(&loader, scale, progress)?;
    loader.close()?;
    let (mut recorded, mut results) = (Vec::new(), Vec::new());
    for query in queries {
        progress(query.name);
        // A new connection has no pages in memory, as after the reboots of the paper.
        let connection = vfs.open()?;
        connection
            .execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB}; PRAGMA temp_store = MEMORY;"))?;
        vfs.begin();
        results.push(rows(&connection, query.text)?);
        recorded.push(Query { name: query.name.to_owned(), reads: vfs.end() });
        connection.close()?;
    }
    let recording = Recording::new(scale, PAGE_BYTES, vfs.pages()?, recorded);
    Ok((recording.map_err(RecordError::Recording)?, results))
}

fn rows(connection: &Store<'_>, text: &str) -> rusqlite::Result<Rows> {
    let mut statement = connection.prepare(text)?;
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..columns)
            .map(|column| {
                Ok(match row.get_ref(column)? {
                    rusqlite::types::ValueRef::Null => "null".to_owned(),
                    rusqlite::types::ValueRef::Integer(value) => value.to_string(),
                    rusqlite::types::ValueRef::Real(value) => format!("{value:.2}"),
                    rusqlite::types::ValueRef::Text(text) | rusqlite::types::ValueRef::Blob(text) => {
                        String::from_utf8_lossy(text).into_owned()
                    }
                })
            })
            .collect()
    };
    statement.query_map([], row)?.collect()
}
