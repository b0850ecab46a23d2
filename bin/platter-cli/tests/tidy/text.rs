//! Rules for every text: forbidden names, and links that must resolve.

use crate::lexer::{line_of, words};
use crate::tree::{File, root};
use std::path::{Component, Path, PathBuf};

/// Paths of one machine and hosts of registries. In two parts, so that this file keeps the rule itself.
const NOT_NAMED: &[(&str, &str)] = &[
    ("/wor", "k/"),
    ("/hom", "e/"),
    ("/roo", "t/"),
    ("/Use", "rs/"),
    ("crates", ".io/"),
    ("static.cra", "tes.io"),
    ("index.cra", "tes.io"),
    ("proxy.gol", "ang.org"),
    ("pypi.o", "rg"),
    ("npmj", "s."),
];

/// Words for persons that stand for no component: name the thread, the caller or the lane. In two parts, as above.
const NO_PERSONS: &[(&str, &str)] = &[("nob", "ody"), ("someb", "ody"), ("anyb", "ody"), ("who", "ever")];

/// Files that may use them: the first runs a command as the user of that name.
const PERSONS: &[&str] = &["bin/platter-cli/tests/command/info.rs"];

/// The only source of packages, as in the lock file.
const REGISTRY: &str = "source = \"registry+https://github.com/rust-lang/";

/// All problems of names and links.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        if file.path.ends_with("Cargo.lock") {
            let strange =
                file.text.lines().filter(|l| l.starts_with("source = ") && !l.starts_with(REGISTRY));
            problems.extend(strange.map(|line| format!("{}: {line}", file.path)));
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            for (a, b) in NOT_NAMED {
                if line.contains(&format!("{a}{b}")) {
                    problems.push(format!("{}:{}: names {a}{b}", file.path, number + 1));
                }
            }
        }
        if file.path.ends_with(".md") {
            links(file, files, &mut problems);
        }
        if (file.is_rust() || file.path.ends_with(".md")) && !PERSONS.contains(&file.path.as_str()) {
            persons(file, &mut problems);
        }
    }
    problems.extend(hidden_pages(files));
    problems
}

/// Pages of docs/ that neither their list nor the architecture page links to.
fn hidden_pages(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|f| f.path == path).map_or("", |f| &f.text);
    let linked: Vec<&str> = ["docs/README.md", "docs/architecture.md"]
        .iter()
        .flat_map(|page| targets(text(page)))
        .filter_map(|(_, target)| target.split('#').next()?.rsplit('/').next())
        .collect();
    let pages = files.iter().filter_map(|f| f.path.strip_prefix("docs/"));
    pages
        .filter(|page| {
            page.ends_with(".md") && !page.contains('/') && !["README.md", "architecture.md"].contains(page)
        })
        .filter(|page| !linked.contains(page))
        .map(|page| format!("docs/{page}: not linked from docs/README.md or docs/architecture.md"))
        .collect()
}

fn persons(file: &File, problems: &mut Vec<String>) {
    let lower = file.text.to_ascii_lowercase();
    for (a, b) in NO_PERSONS {
        let word = format!("{a}{b}");
        let lines = words(&lower, &word).map(|at| line_of(&lower, at));
        problems.extend(lines.map(|line| format!("{}:{line}: {word}; name the component", file.path)));
    }
}

/// The targets of a page's links, code aside, with the lines they are on.
fn targets(page: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push((number + 1, &rest[..end]));
            }
        }
    }
    found
}

/// A heading's anchor: lower case, words joined with dashes, punctuation left out.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    page.lines().filter(|l| l.starts_with('#')).any(|l| anchor(l.trim_start_matches('#')) == wanted)
}

/// `from/../to` without the detour.
pub(crate) fn plain(path: &Path) -> String {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out.to_string_lossy().into_owned()
}

fn links(file: &File, files: &[File], problems: &mut Vec<String>) {
    for (line, target) in targets(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() {
            file.path.clone()
        } else {
            let dir = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            plain(&dir.join(path))
        };
        let page = files.iter().find(|f| f.path == path);
        if page.is_none() && !root().join(&path).exists() {
            problems.push(format!("{}:{line}: {target} leads nowhere", file.path));
        }
        if let Some(page) = page
            && !anchor.is_empty()
            && !has_anchor(&page.text, anchor)
        {
            problems.push(format!("{}:{line}: {path} has no heading for #{anchor}", file.path));
        }
    }
}

#[test]
fn broken_links_and_forbidden_names_are_found() {
    let file = |path: &str, text: &str| File::new(path, text);
    let (a, b) = NOT_NAMED[0];
    let files = [
        file(
            "docs/a.md",
            "# One way, here\n[b](sub/b.md#two) [me](#one-way-here) [web](https://example.com)",
        ),
        file("docs/README.md", "[b](a.md#one-way-here)"),
        file("docs/hidden.md", "# Hidden"),
        file("docs/sub/b.md", "## Two\n[up](../a.md#three)\n[gone](c.md)\n```\n[x](y)\n```"),
        file("run.sh", &format!("cd {a}{b}here")),
        file("src/x.rs", &format!("// Fine.\n// {}{} waits.", NO_PERSONS[0].0, NO_PERSONS[0].1)),
        file("Cargo.lock", "source = \"registry+https://mirror.example/index\""),
    ];
    let found = problems(&files);
    let starts: Vec<&str> = found.iter().map(|p| p.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(
        starts,
        ["docs/sub/b.md:2", "docs/sub/b.md:3", "run.sh:1", "src/x.rs:2", "Cargo.lock", "docs/hidden.md"],
        "{found:?}"
    );
}
