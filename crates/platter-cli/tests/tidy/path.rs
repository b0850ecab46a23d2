//! The path of one read in docs/path.md is that of the code, and does not grow.

use crate::lexer::{code, words};
use crate::tree::File;

const PAGE: &str = "docs/path.md";
const BEGIN: &str = "<!-- path: begin -->";
const END: &str = "<!-- path: end -->";

/// Most files of the path, and most lines of all of them without their tests.
const MOST_FILES: usize = 12;
const MOST_LINES: usize = 3_000;

/// The rows of the page's table: a file and its functions.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    let table =
        page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map_or("", |(table, _)| table);
    let row = |line| {
        let mut names = str::split(line, '`').skip(1).step_by(2);
        Some((names.next()?, names.collect()))
    };
    table.lines().filter_map(row).collect()
}

/// Lines of a file up to a module with its tests.
fn lines(text: &str) -> usize {
    let all: Vec<&str> = text.lines().collect();
    let is_tests =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    all.windows(2).position(is_tests).unwrap_or(all.len())
}

/// All problems of the table.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| &file.text);
    let rows = rows(page);
    let (mut problems, mut total) = (Vec::new(), 0);
    for (path, functions) in &rows {
        let Some(file) = files.iter().find(|file| file.path == *path) else {
            problems.push(format!("{PAGE}: there is no file {path}"));
            continue;
        };
        total += lines(&file.text);
        let code = code(&file.text);
        let is_defined = |name: &str| words(&code, name).any(|at| code[..at].ends_with("fn "));
        let missing = functions.iter().filter(|name| !is_defined(name));
        problems.extend(missing.map(|name| format!("{PAGE}: no function {name} in {path}")));
    }
    if rows.is_empty() || rows.len() > MOST_FILES || total > MOST_LINES {
        problems.push(format!(
            "{PAGE}: the path has {} files with {total} lines; at most {MOST_FILES} and {MOST_LINES}",
            rows.len()
        ));
    }
    problems
}

#[test]
fn a_function_that_has_moved_is_found() {
    let file = |path: &str, text: &str| File::new(path, text);
    let table = format!(
        "{BEGIN}\n| file | functions |\n|---|---|\n| `a.rs` | `here`, `gone` |\n| `b.rs` | `x` |\n{END}"
    );
    let files = [file(PAGE, &table), file("a.rs", "fn here() {}\n// fn gone()\n")];
    let expected =
        ["no function gone in a.rs", "there is no file b.rs"].map(|text| format!("{PAGE}: {text}"));
    assert_eq!(problems(&files), expected);
    assert_eq!(problems(&[file(PAGE, "")]).len(), 1);
}
