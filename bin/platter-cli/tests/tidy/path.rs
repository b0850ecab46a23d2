//! The paths of I/Os in docs/path.md and the places on the map are those of the code, and the path of a read does not grow.

use crate::lexer::{code, words};
use crate::tree::File;

const PAGE: &str = "docs/path.md";
const MAP: &str = "docs/architecture.md";
/// The table of the path that does not grow.
const READ: &str = "path";
/// The tables: their pages and the names in their marks.
const TABLES: &[(&str, &str)] = &[
    (PAGE, READ),
    (PAGE, COLD),
    (PAGE, "cached write"),
    (PAGE, "barrier"),
    (PAGE, "nbd write"),
    (MAP, "places"),
];

/// Most lines of the map.
const MOST_OF_MAP: usize = 150;
/// Most files of the path of a read, and most lines of all of them without their tests.
const MOST_FILES: usize = 12;
const MOST_LINES: usize = 3_000;

/// The table of a read that the page cache has not, and most files of the cache in it.
const COLD: &str = "cold read";
const CACHE: &str = "lib/platter-cache/";
const MOST_OF_CACHE: usize = 4;

/// What stands between the marks of a table.
fn table<'a>(page: &'a str, name: &str) -> &'a str {
    let begin = page.split_once(&format!("<!-- {name}: begin -->\n"));
    begin
        .and_then(|(_, rest)| rest.split_once(&format!("<!-- {name}: end -->")))
        .map_or("", |(table, _)| table)
}

/// The row of a table: the first cell that is a file, and the functions that the next cell names.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.split('|').map(str::trim);
    let file = cells
        .find_map(|cell| cell.strip_prefix('`')?.strip_suffix('`').filter(|file| file.ends_with(".rs")))?;
    Some((file, cells.next()?.split('`').skip(1).step_by(2).collect()))
}

/// Lines of a file up to a module with its tests.
fn lines(text: &str) -> usize {
    let all: Vec<&str> = text.lines().collect();
    let is_tests =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    all.windows(2).position(is_tests).unwrap_or(all.len())
}

/// All problems of the tables.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let of_tables = TABLES.iter().flat_map(|&(page, name)| problems_of(files, page, name));
    let lines = files.iter().find(|file| file.path == MAP).map_or(0, |map| map.text.lines().count());
    let long = format!("{MAP} has {lines} lines, at most {MOST_OF_MAP}");
    of_tables.chain((lines > MOST_OF_MAP).then_some(long)).collect()
}

fn problems_of(files: &[File], page: &str, name: &str) -> Vec<String> {
    let text = files.iter().find(|file| file.path == page).map_or("", |file| &file.text);
    let table = table(text, name);
    let rows: Vec<_> = table.lines().filter_map(row).collect();
    let (mut problems, mut total) = (Vec::new(), 0);
    // The head of a table has two lines.
    if rows.is_empty() || rows.len() + 2 < table.lines().count() {
        problems.push(format!("{page}: a row of the table \"{name}\" names no file, or there is none"));
    }
    for (path, functions) in &rows {
        let Some(file) = files.iter().find(|file| file.path == *path) else {
            problems.push(format!("{page}: there is no file {path}"));
            continue;
        };
        total += lines(&file.text);
        let code = code(&file.text);
        let is_defined = |name: &str| words(&code, name).any(|at| code[..at].ends_with("fn "));
        let missing = functions.iter().filter(|name| !is_defined(name));
        problems.extend(missing.map(|name| format!("{page}: no function {name} in {path}")));
        if functions.is_empty() {
            problems.push(format!("{page}: no function in the row of {path}"));
        }
    }
    if name == READ && (rows.len() > MOST_FILES || total > MOST_LINES) {
        problems.push(format!(
            "{page}: the path has {} files with {total} lines; at most {MOST_FILES} and {MOST_LINES}",
            rows.len()
        ));
    }
    let of_cache = rows.iter().filter(|(path, _)| path.starts_with(CACHE)).count();
    if name == COLD && of_cache > MOST_OF_CACHE {
        problems
            .push(format!("{page}: a cold read has {of_cache} files of the cache; at most {MOST_OF_CACHE}"));
    }
    problems
}

#[test]
fn a_function_that_has_moved_is_found() {
    let file = |path: &str, text: &str| File::new(path, text);
    let table = "<!-- path: begin -->\n| where? | file | functions |\n|---|---|---|\n| `x` | `a.rs` | `here`, `gone` | `away` |\n\
                 | `b.rs` | `x` |\n| `a.rs` | |\n| none |\n<!-- path: end -->";
    let files = [file(PAGE, table), file("a.rs", "fn here() {}\n// fn gone()\n")];
    let expected = [
        "a row of the table \"path\" names no file, or there is none",
        "no function gone in a.rs",
        "there is no file b.rs",
        "no function in the row of a.rs",
    ];
    assert_eq!(problems_of(&files, PAGE, READ), expected.map(|text| format!("{PAGE}: {text}")));
    assert_eq!(problems(&[file(PAGE, "")]).len(), TABLES.len());
    assert_eq!(problems(&[file(MAP, &"\n".repeat(151))]).len(), TABLES.len() + 1);
}
