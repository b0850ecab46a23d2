//! The patches of defects/, each of which puts a defect back: their heads are complete, what must find them exists, and the
//! pages have the same tables.

use crate::tree::{File, root};
use platter_kit::soak::bugs;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

/// Set, the tables of the pages are written instead of checked.
const WRITE: &str = "PLATTER_WRITE_TABLES";
const BEGIN: &str = "<!-- defects: written by a test, see there -->\n";
const END: &str = "<!-- end of defects -->\n";

/// What must find a defect.
#[derive(Debug, PartialEq, Eq)]
enum FoundBy<'a> {
    /// Within this number of runs from seed 1.
    Soak(u64),
    Test {
        package: &'a str,
        binary: &'a str,
        name: &'a str,
    },
    Fuzz {
        format: &'a str,
        runs: u64,
    },
}

struct Patch<'a> {
    name: &'a str,
    summary: &'a str,
    found_by: FoundBy<'a>,
    file: &'a File,
}

fn found_by(text: &str) -> Option<FoundBy<'_>> {
    match *text.split(' ').collect::<Vec<_>>() {
        ["soak", runs] => Some(FoundBy::Soak(runs.parse().ok()?)),
        ["test", package, binary, name] => Some(FoundBy::Test { package, binary, name }),
        ["fuzz", format, runs] => Some(FoundBy::Fuzz { format, runs: runs.parse().ok()? }),
        _ => None,
    }
}

/// The patches, and what is wrong with the heads of the others.
fn patches(files: &[File]) -> (Vec<Patch<'_>>, Vec<String>) {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        let Some(name) = file.path.strip_prefix("defects/").and_then(|name| name.strip_suffix(".patch"))
        else {
            continue;
        };
        let entry = |key: &str| {
            let mut head = file.text.lines().take_while(|line| !line.is_empty());
            head.find_map(|line| line.strip_prefix(key)).filter(|text| !text.is_empty())
        };
        match (entry("Summary: "), entry("Found-by: ").and_then(found_by)) {
            (Some(summary), Some(found_by)) => all.push(Patch { name, summary, found_by, file }),
            _ => problems.push(format!(
                "{}: expected the lines `Summary: …` and `Found-by: soak RUNS`, `test PACKAGE BINARY NAME` or `fuzz FORMAT RUNS`",
                file.path
            )),
        }
    }
    all.sort_by_key(|patch| patch.name);
    (all, problems)
}

/// Why what must find a defect is not there.
fn missing(patch: &Patch<'_>, files: &[File], formats: &BTreeSet<String>) -> Option<String> {
    match patch.found_by {
        FoundBy::Soak(_) => None,
        FoundBy::Fuzz { format, .. } => (!formats.contains(format)).then(|| format!("no format {format}")),
        FoundBy::Test { package, binary, name } => {
            let inside = if binary == "lib" { "src/".to_owned() } else { format!("tests/{binary}") };
            let mut modules: Vec<&str> = name.split("::").collect();
            let function = format!("fn {}(", modules.pop().unwrap_or_default());
            let is_in = |file: &File, module: &&str| {
                file.path.split(['/', '.']).any(|part| part == *module)
                    || file.text.contains(&format!("mod {module} "))
            };
            let defines = |file: &File| file.is_rust() && file.text.contains(&function);
            // A test may lie in a file of another crate.
            let lies_there =
                |file: &File| file.room() == package && file.path.contains(&format!("/{package}/{inside}"));
            let is_there = files.iter().any(lies_there);
            let is_defined =
                files.iter().any(|file| defines(file) && modules.iter().all(|module| is_in(file, module)));
            (!is_there || !is_defined).then(|| format!("no test {name} in {inside} of {package}"))
        }
    }
}

/// The texts that a patch replaces, with the file of each.
fn replaced(patch: &str) -> Vec<(&str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    let mut path = "";
    for line in patch.lines().skip_while(|line| !line.starts_with("--- ")) {
        if let Some(name) = line.strip_prefix("--- a/") {
            path = name;
        } else if line.starts_with("@@ ") {
            all.push((path, String::new()));
        } else if let (Some(text), Some((_, old))) =
            (line.strip_prefix([' ', '-']).filter(|_| !line.starts_with("--- ")), all.last_mut())
        {
            old.push_str(text);
            old.push('\n');
        }
    }
    all
}

/// The files of a patch in which it would not find its place: the text that it replaces is not there once.
fn strays<'a>(patch: &'a Patch<'_>, files: &[File]) -> Vec<&'a str> {
    let is_astray = |(path, old): &(&str, String)| {
        let text = files.iter().find(|file| file.path == *path).map_or("", |file| &file.text);
        text.match_indices(old.as_str()).filter(|(at, _)| *at == 0 || text[..*at].ends_with('\n')).count()
            != 1
    };
    replaced(&patch.file.text).into_iter().filter(is_astray).map(|(path, _)| path).collect()
}

/// All problems of the patches. That one does not apply any more is only warned of here; `scripts/check-defects` fails.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let (patches, mut problems) = patches(files);
    // Corpora are bytes, so they are not among the texts.
    let corpora = fs::read_dir(root().join("lab/platter-fuzz/corpus")).expect("the corpora are there");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let formats: BTreeSet<String> = corpora.filter_map(name).collect();
    let mut without = formats.clone();
    for patch in &patches {
        problems.extend(missing(patch, files, &formats).map(|why| format!("{}: {why}", patch.file.path)));
        for path in strays(patch, files) {
            // Not with `eprintln`, which shows nothing of a test that passes.
            let _ = writeln!(std::io::stderr(), "warning: {} does not apply to {path}", patch.file.path);
        }
        if let FoundBy::Fuzz { format, .. } = patch.found_by {
            without.remove(format);
        }
    }
    problems.extend(without.iter().map(|format| format!("defects: none of the format {format}")));
    problems
}

fn simulation(patches: &[Patch<'_>]) -> String {
    let mut table = "| bug that is built in | what it does | found within |\n|---|---|---|\n".to_owned();
    for bug in bugs::TABLE {
        let _ = writeln!(table, "| `{}` | {} | {} runs |", bug.name, bug.summary, bug.runs);
    }
    table.push_str("\n| defect | what it does | found by |\n|---|---|---|\n");
    for Patch { name, summary, found_by, .. } in patches {
        let _ = match found_by {
            FoundBy::Soak(runs) => writeln!(table, "| `{name}` | {summary} | {runs} runs of the soak |"),
            FoundBy::Test { package, binary, name: test } => {
                writeln!(table, "| `{name}` | {summary} | `{package}`, `{binary}`: `{test}` |")
            }
            FoundBy::Fuzz { .. } => Ok(()),
        };
    }
    table
}

fn fuzzing(patches: &[Patch<'_>]) -> String {
    let mut table = "| format | defect | what it does | found within |\n|---|---|---|---:|\n".to_owned();
    for Patch { name, summary, found_by, .. } in patches {
        if let FoundBy::Fuzz { format, runs } = found_by {
            let _ = writeln!(table, "| `{format}` | `{name}` | {summary} | {runs} runs |");
        }
    }
    table
}

/// Checks the tables of the pages, or writes them on request.
pub(crate) fn check_tables(files: &[File]) {
    let (patches, _) = patches(files);
    for (page, table) in
        [("docs/simulation.md", simulation(&patches)), ("docs/fuzzing.md", fuzzing(&patches))]
    {
        let path = root().join(page);
        let text = fs::read_to_string(&path).expect("the page is there");
        let (head, rest) = text.split_once(BEGIN).expect("the page has the marks of the table");
        let (said, tail) = rest.split_once(END).expect("the page has the marks of the table");
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).expect("the page can be written");
            continue;
        }
        assert!(
            said == table,
            "{page} differs from the patches in defects/; run `{WRITE}=1 cargo test -p platter-cli --test tidy`"
        );
    }
}

#[test]
fn patches_that_find_no_place_are_found() {
    let patch = |found_by: &str| {
        let text = format!(
            "Summary: wrong\nFound-by: {found_by}\n\n--- a/lib/a/src/lib.rs\n+++ b/lib/a/src/lib.rs\n\
             @@ -1,3 +1,3 @@ fn one() {{\n one\n-two\n+TWO\n three\n"
        );
        File::new("defects/name.patch", text)
    };
    let of = |code: &str, found_by: &str| {
        let files = [File::new("lib/a/src/lib.rs", code), patch(found_by)];
        let (all, wrong) = patches(&files);
        let strays: Vec<usize> = all.iter().map(|patch| strays(patch, &files).len()).collect();
        let missing: Vec<String> =
            all.iter().filter_map(|patch| missing(patch, &files, &BTreeSet::new())).collect();
        (strays, missing, wrong.len())
    };
    let there = "// mod c { fn b() {} }\none\ntwo\nthree\n";
    assert_eq!(of(there, "test a lib c::b"), (vec![0], vec![], 0));
    assert_eq!(of(there, "test a lib d::b"), (vec![0], vec!["no test d::b in src/ of a".to_owned()], 0));
    assert_eq!(of(there, "test a lib c::d"), (vec![0], vec!["no test c::d in src/ of a".to_owned()], 0));
    assert_eq!(of("done\ntwo\nthree\n", "soak 10"), (vec![1], vec![], 0));
    assert_eq!(of(&there.repeat(2), "soak 10"), (vec![1], vec![], 0));
    assert_eq!(of(there, "soak"), (vec![], vec![], 1));
    assert_eq!(of(there, "fuzz x 5"), (vec![0], vec!["no format x".to_owned()], 0));
}
