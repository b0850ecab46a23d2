//! Pages, and the heads of modules, name files, functions, types and commands that exist.

use crate::lexer::{line_of, words};
use crate::tree::{File, HOUSE};
use std::collections::{HashMap, HashSet};

/// Names of the system, of protocols and of rows of a table, in the form of names of this code.
const FOREIGN: &[&str] =
    &["Baseline", "MemAvailable", "CommitLimit", "MaxCmdSN", "MaxConnections", "MaxRecvDataSegmentLength"];

/// Whether a file is a page that is checked: all but dated records.
fn is_page(file: &File) -> bool {
    let name = file.path.strip_prefix("docs/").unwrap_or(&file.path);
    name.ends_with(".md") && !name.contains('/') && name != "CHANGELOG.md"
}

/// The head of a source file, its `//!` lines, with each line in its place.
fn head(file: &File) -> String {
    let lines = file.text.lines().map(|line| line.strip_prefix("//!").unwrap_or_default());
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// What names things of the code: pages, and heads of source files that are not tests, in which a name has a path
/// (`Queue::submit`), because other names in capitals are often those of the kernel.
fn texts(files: &[File]) -> Vec<(&str, String, bool)> {
    let pages = files.iter().filter(|f| is_page(f)).map(|f| (f.path.as_str(), f.text.clone(), false));
    let heads = files.iter().filter(|f| f.is_rust() && f.path.contains("/src/"));
    pages.chain(heads.map(|f| (f.path.as_str(), head(f), true))).collect()
}

/// Texts in backquotes outside of fenced blocks, with their lines.
fn quoted(page: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if !fenced && !line.starts_with("    ") {
            found.extend(line.split('`').skip(1).step_by(2).map(|text| (number + 1, text)));
        }
    }
    found
}

/// Whether a quotation is the name of a type or function, or a path to one: `Queue::submit`, `now()`, `DiskLane`.
fn is_name(text: &str) -> bool {
    let plain = text.trim_end_matches("()");
    let parts: Vec<&str> = plain.split("::").collect();
    let word = |part: &&str| part.chars().all(|c| c.is_alphanumeric() || c == '_') && !part.is_empty();
    let camel = plain.starts_with(char::is_uppercase) && plain.contains(char::is_lowercase);
    parts.iter().all(word) && (parts.len() > 1 || plain != text || camel)
}

/// Whether a text starts with the folder of a crate.
fn starts_with_crate(text: &str) -> bool {
    HOUSE.iter().any(|part| text.strip_prefix(part).is_some_and(|rest| rest.starts_with("/platter")))
}

/// Whether a quotation is a file or folder of the project: a source, or something in one of its folders.
fn is_path(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_alphanumeric() || "/_-.".contains(c));
    let own = ["docs/", "scripts/", "contrib/", "tests/"].iter().any(|start| text.starts_with(start))
        || starts_with_crate(text);
    // `a/b/`; a name with a single slash may be anything.
    let folder = text.ends_with('/') && text.trim_end_matches('/').contains('/');
    // `FORMAT` stands for a name.
    let holds_place = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    plain && !text.split('/').any(holds_place) && (own || folder || text.ends_with(".rs"))
}

/// The commands in a page: in lines of examples and in quotations, what follows `platter`.
fn commands(page: &str) -> Vec<(usize, Vec<&str>)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in page.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        let example = if fenced || line.starts_with("    ") { Some(line) } else { None };
        let quotations = line.split('`').skip(1).step_by(2).filter(|_| !fenced);
        for text in example.into_iter().chain(quotations) {
            let text = text.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
            if let Some(rest) = text.strip_prefix("platter ") {
                found.push((number + 1, rest.split_whitespace().collect()));
            }
        }
    }
    found
}

/// The subcommands that `platter PATH --help` lists.
fn subcommands(path: &[&str]) -> Vec<String> {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_platter")).args(path).arg("--help").output();
    let help = String::from_utf8(help.expect("the command runs").stdout).expect("text");
    let rows =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // The first words of rows; their help goes on in lines that are indented further.
    let names = rows.filter(|row| row.starts_with("  ") && !row.starts_with("   "));
    names.filter_map(|row| row.split_whitespace().next()).map(str::to_owned).collect()
}

/// Commands in the pages that the program does not have. `of` has the subcommands of a command.
fn lost_commands(files: &[File], of: impl Fn(&[&str]) -> Vec<String>) -> Vec<String> {
    let mut known: HashMap<Vec<&str>, Vec<String>> = HashMap::new();
    let mut problems = Vec::new();
    for page in files.iter().filter(|f| is_page(f)) {
        for (line, words) in commands(&page.text) {
            for depth in 0..2 {
                let Some(word) = words.get(depth) else { break };
                // An option, or a place holder; and what comes behind one is not looked at.
                if !word.starts_with(|c: char| c.is_ascii_lowercase()) {
                    break;
                }
                let names = known.entry(words[..depth].to_vec()).or_insert_with(|| of(&words[..depth]));
                if !names.is_empty() && !names.iter().any(|name| name == word) {
                    problems.push(format!(
                        "{}:{line}: no command platter {}",
                        page.path,
                        words[..=depth].join(" ")
                    ));
                    break;
                }
            }
        }
    }
    problems
}

/// Commands in the pages that the program does not have.
pub(crate) fn wrong_commands(files: &[File]) -> Vec<String> {
    lost_commands(files, subcommands)
}

/// All problems of the pages.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let mut known: HashSet<String> = HashSet::new();
    for file in files.iter().filter(|f| f.is_rust()) {
        let code = file.code();
        known.extend(code.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_string));
        let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        known.insert(stem.to_string());
    }
    known.extend(["platter_block", "platter_stack", "platter_disk", "platter_bench"].map(str::to_string));
    let mut problems = Vec::new();
    for (page, contents, is_head) in texts(files) {
        for (line, text) in quoted(&contents) {
            if is_path(text) && (text.ends_with(".rs") || !is_head) {
                let inside = format!("/{text}");
                let is_there = |f: &File| {
                    f.path == text
                        || f.path.ends_with(&inside)
                        || (text.ends_with('/') && f.path.contains(&inside))
                };
                if !files.iter().any(is_there)
                    && !files.iter().any(|f| f.path.starts_with(text) && text.ends_with('/'))
                {
                    problems.push(format!("{page}:{line}: there is no file {text}"));
                }
            } else if is_name(text) && !FOREIGN.contains(&text) && (!is_head || text.contains("::")) {
                let missing = text.trim_end_matches("()").split("::").find(|part| !known.contains(*part));
                problems.extend(missing.map(|part| format!("{page}:{line}: no {part} in {text}")));
            }
        }
    }
    problems
}

/// The functions that a page names as `Type::name` and that no type of that name has, as far as a text search
/// can tell: the function must be defined in a file that contains the type's name.
pub(crate) fn misplaced(files: &[File]) -> Vec<String> {
    let codes: Vec<&str> = files.iter().filter(|f| f.is_rust()).map(File::code).collect();
    let mut problems = Vec::new();
    for (page, contents, _) in texts(files) {
        let names =
            quoted(&contents).into_iter().filter(|(_, text)| is_name(text) && !FOREIGN.contains(text));
        for (line, text) in names {
            let Some((owner, name)) = text.trim_end_matches("()").rsplit_once("::") else { continue };
            let owner = owner.rsplit("::").next().unwrap_or_default();
            let together =
                |code: &&str| words(code, owner).next().is_some() && words(code, name).next().is_some();
            if owner.starts_with(char::is_uppercase) && !codes.iter().any(together) {
                problems.push(format!("{page}:{line}: no file has both parts of {text}"));
            }
        }
    }
    problems
}

/// Paths of source files, in any text but dated records, that lead nowhere. They are written from the root of the
/// workspace: the part of the house, the crate, then the file.
pub(crate) fn lost_paths(files: &[File]) -> Vec<String> {
    let known: HashSet<&str> = files.iter().map(|f| f.path.as_str()).collect();
    let mut problems = Vec::new();
    // The tests of these rules name files that do not exist.
    let exempt = ["docs/decisions/", "bin/platter-cli/tests/tidy/"];
    for file in files.iter().filter(|f| !exempt.iter().any(|start| f.path.starts_with(start))) {
        for (slash, _) in file.text.match_indices("/platter") {
            let part = HOUSE.iter().find(|part| file.text[..slash].ends_with(*part));
            let Some(at) = part.map(|part| slash - part.len()) else { continue };
            let rest = &file.text[at..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "/_-.".contains(c))).unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches('.');
            if path.ends_with(".rs") && !file.text[..at].ends_with('/') && !known.contains(path) {
                problems.push(format!("{}:{}: there is no file {path}", file.path, line_of(&file.text, at)));
            }
        }
    }
    problems
}

/// The features of the library that docs/promises.md has no row for.
pub(crate) fn unlisted_features(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|f| f.path == path).map_or("", |f| &f.text);
    let (manifest, page) = (text("lib/platter/Cargo.toml"), text("docs/promises.md"));
    let section = manifest.split("[features]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    let is_listed = |name: &str| {
        let cell = format!(" | `{name}` | ");
        page.lines().any(|line| line.starts_with("| `platter`") && line.contains(&cell))
    };
    names
        .map(|(name, _)| name)
        .filter(|&name| name != "default" && !is_listed(name))
        .map(|name| format!("docs/promises.md: no row for the feature {name} of platter"))
        .collect()
}

#[test]
fn features_without_a_row_are_found() {
    let files = [
        File::new(
            "lib/platter/Cargo.toml",
            "[features]\ndefault = [\"a\"]\n# b = c\na = []\nb-c = []\n\n[dependencies]\nd = \"1\"\n",
        ),
        File::new("docs/promises.md", "| `platter`, `other` | `a` | on | |\n| `other` | `b-c` | on | |\n"),
    ];
    assert_eq!(unlisted_features(&files), ["docs/promises.md: no row for the feature b-c of platter"]);
}

#[test]
fn commands_that_are_gone_are_found() {
    let page = "    platter info x\n    $ platter dump x\n`platter sim soak --seed 1` `platter sim gone`\n```\nplatter nvme id\n```\n\
                `platter --json info` `platter VERB` `platter info gone`\n";
    let files = [File::new("docs/any.md", page), File::new("docs/decisions/old.md", "    platter dump x\n")];
    let of = |path: &[&str]| -> Vec<String> {
        match path {
            [] => vec!["info".into(), "sim".into(), "nvme".into()],
            ["sim"] => vec!["soak".into()],
            ["nvme"] => vec!["decode".into()],
            _ => Vec::new(),
        }
    };
    let expected = [
        "docs/any.md:2: no command platter dump",
        "docs/any.md:3: no command platter sim gone",
        "docs/any.md:5: no command platter nvme id",
    ];
    assert_eq!(lost_commands(&files, of), expected);
}

#[test]
fn files_that_are_gone_are_found() {
    let page =
        "`scripts/here` `scripts/gone` `lib/platter-a/src/` `lib/platter-b/` `nbd/copies.rs` `disk.img`\n";
    let files = [
        File::new("docs/any.md", page),
        File::new("scripts/here", ""),
        File::new("lib/platter-a/src/lib.rs", ""),
    ];
    let lost: Vec<String> =
        problems(&files).iter().map(|p| p.rsplit(' ').next().unwrap_or_default().into()).collect();
    assert_eq!(lost, ["scripts/gone", "lib/platter-b/", "nbd/copies.rs"]);
}

#[test]
fn paths_that_lead_nowhere_are_found() {
    let files = [
        File::new(
            "lib/platter-a/src/lib.rs",
            "// See lib/platter-a/src/gone.rs.\n// And lib/platter-a/src/lib.rs, ../../lib/platter-x.rs",
        ),
        File::new("docs/decisions/old.md", "lib/platter-a/src/gone.rs"),
    ];
    assert_eq!(
        lost_paths(&files),
        ["lib/platter-a/src/lib.rs:1: there is no file lib/platter-a/src/gone.rs"]
    );
}

#[test]
fn names_in_the_heads_of_modules_are_checked() {
    let source = "//! `Queue::submit`, not `Queue::gone`\n//!\n//! and `lost.rs`, `Foreign`\n//! ```\n//! `Queue::lost`\n//! ```\nstruct Queue; fn submit() {}\n";
    let files = [
        File::new("lib/platter-a/src/queue.rs", source),
        File::new("lib/platter-a/tests/queue.rs", "//! `Queue::gone`\n"),
    ];
    let expected = [
        "lib/platter-a/src/queue.rs:1: no gone in Queue::gone",
        "lib/platter-a/src/queue.rs:3: there is no file lost.rs",
    ];
    assert_eq!(problems(&files), expected);
}

#[test]
fn names_that_are_gone_are_found() {
    let file = |path: &str, text: &str| File::new(path, text);
    let files = [
        file("lib/platter-a/src/queue.rs", "struct Queue; impl Queue { fn submit() {} }\n// Queue::gone"),
        file("lib/platter-a/src/other.rs", "fn take() {}"),
        file(
            "docs/any.md",
            "`Queue::submit` `queue.rs` `none` `x=1` `Queue::gone`\n`Queue::take` `gone.rs` `away()`\n    `Gone`\n",
        ),
    ];
    let at = |problems: Vec<String>| -> Vec<String> {
        problems.iter().map(|p| p.rsplit(": ").next().unwrap_or_default().to_string()).collect()
    };
    let expected = ["no gone in Queue::gone", "there is no file gone.rs", "no away in away()"];
    assert_eq!(at(problems(&files)), expected);
    let expected = ["no file has both parts of Queue::gone", "no file has both parts of Queue::take"];
    assert_eq!(at(misplaced(&files)), expected);
}
