//! Dependencies, files and public items that nothing uses.

use crate::lexer::{is_word, words};
use crate::modules::{self, Target};
use crate::tree::File;
use std::collections::{HashMap, HashSet};

/// Public items that no other file names and that stay, each with the reason.
const KEPT: &[(&str, &str, &str)] = &[];

/// Dependencies that a manifest names and no source of the crate.
pub(crate) fn dependencies(files: &[File], targets: &[Target<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    for manifest in files.iter().filter(|f| f.path.ends_with("/Cargo.toml")) {
        let room = manifest.room();
        let sources = sources(room, targets);
        for (name, dev) in declared(&manifest.text) {
            let ident = name.replace('-', "_");
            let named = sources.iter().any(|(file, test)| match (dev, test) {
                (true, _) => words(file.code(), &ident).next().is_some() || in_docs(&file.text, &ident),
                (false, false) => words(file.live(), &ident).next().is_some(),
                (false, true) => false,
            });
            if !named {
                let kind = if dev { "dev-dependency" } else { "dependency" };
                problems.push(format!("{}: no source of {room} names the {kind} {name}", manifest.path));
            }
        }
    }
    problems
}

/// The files of a crate's targets, also those of other crates that it includes by path, and whether each is
/// built only for tests.
fn sources<'a>(room: &str, targets: &[Target<'a>]) -> Vec<(&'a File, bool)> {
    let own = targets.iter().filter(|t| t.modules[0].file.room() == room);
    own.flat_map(|t| t.modules.iter().map(|m| (m.file, m.test))).collect()
}

/// The packages that a manifest depends on, and whether only its tests and examples do.
fn declared(manifest: &str) -> Vec<(&str, bool)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if section.ends_with("dependencies")
            && section != "workspace.dependencies"
            && !line.starts_with('#')
            && let Some(end) = line.find(['=', '.', ' '])
        {
            found.push((&line[..end], section.ends_with("dev-dependencies")));
        }
    }
    found
}

/// Whether documentation, whose examples are tests, has a path that begins with this crate.
fn in_docs(text: &str, ident: &str) -> bool {
    let docs = text.lines().filter(|l| l.trim_start().starts_with("///") || l.starts_with("//!"));
    docs.into_iter().any(|l| words(l, ident).any(|at| l[at + ident.len()..].starts_with("::")))
}

/// Source files that no library, program, test or example contains.
pub(crate) fn dead_files(files: &[File], targets: &[Target<'_>]) -> Vec<String> {
    let built: HashSet<&str> =
        targets.iter().flat_map(|t| t.modules.iter().map(|m| m.file.path.as_str())).collect();
    let dead = files.iter().filter(|f| f.is_rust() && !built.contains(f.path.as_str()));
    dead.map(|f| format!("{}: no `mod`, `#[path]`, test or example includes this file", f.path)).collect()
}

/// A public item, where it is defined, and how often its own file names it.
struct Item<'a> {
    name: &'a str,
    kind: &'a str,
    file: &'a File,
}

/// Public items that no other file of the project names, and that their own file does not use either.
pub(crate) fn dead_items(files: &[File], targets: &[Target<'_>]) -> Vec<String> {
    judge(files, targets, KEPT)
}

fn judge(files: &[File], targets: &[Target<'_>], kept: &[(&str, &str, &str)]) -> Vec<String> {
    let items = public_items(targets);
    let elsewhere = files_that_name(&items, files);
    let mut dead = Vec::new();
    for item in &items {
        let other = elsewhere[item.name].iter().any(|&path| path != item.file.path);
        if !other && !used_in_its_file(item) {
            dead.push((item.file.path.as_str(), item.name, item.kind));
        }
    }
    let mut problems = Vec::new();
    for (path, name, kind) in &dead {
        if !kept.iter().any(|(p, n, _)| (p, n) == (path, name)) {
            problems.push(format!(
                "{path}: nothing names the public {kind} {name}; delete it or make it private"
            ));
        }
    }
    for (path, name, _) in kept {
        if !dead.iter().any(|(p, n, _)| (p, n) == (path, name)) {
            problems.push(format!("{path}: {name} is in the list of items to keep, but is used or gone"));
        }
    }
    problems
}

/// Everything that is `pub` in the libraries.
fn public_items<'a>(targets: &[Target<'a>]) -> Vec<Item<'a>> {
    const KINDS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
    let mut found = Vec::new();
    for target in targets.iter().filter(|t| t.modules[0].file.path.ends_with("/src/lib.rs")) {
        for module in target.modules.iter().filter(|m| !m.test) {
            for line in module.file.live().lines() {
                let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
                let words: Vec<&str> =
                    rest.split(|c| !is_word(c)).filter(|w| !w.is_empty()).take(5).collect();
                let at = words
                    .iter()
                    .position(|word| KINDS.contains(word) && *word != "const")
                    .or_else(|| words.iter().position(|word| *word == "const"));
                let defines = at
                    .is_some_and(|at| words[..at].iter().all(|w| matches!(*w, "const" | "unsafe" | "async")));
                if let (true, Some(at)) = (defines, at)
                    && let Some(name) = words.get(at + 1)
                {
                    found.push(Item { name, kind: words[at], file: module.file });
                }
            }
        }
    }
    found
}

/// For the name of each item, the files that contain it, in code or in text.
fn files_that_name<'a>(items: &[Item<'a>], files: &'a [File]) -> HashMap<&'a str, Vec<&'a str>> {
    let mut found: HashMap<&str, Vec<&str>> = items.iter().map(|item| (item.name, Vec::new())).collect();
    for file in files.iter().filter(|f| !f.path.contains("/corpus/") && !f.path.ends_with("tidy/unused.rs")) {
        for word in file.text.split(|c| !is_word(c)) {
            if let Some(paths) = found.get_mut(word)
                && paths.last() != Some(&file.path.as_str())
            {
                paths.push(&file.path);
            }
        }
    }
    found
}

/// Whether the item's own file names it apart from its definition and its `impl` blocks.
fn used_in_its_file(item: &Item<'_>) -> bool {
    let code = item.file.code();
    let uses = words(code, item.name).filter(|&at| {
        let line = &code[code[..at].rfind('\n').map_or(0, |n| n + 1)..at];
        let definition = line.trim_end().ends_with(item.kind);
        let header = line.trim_start().starts_with("impl");
        !definition && !header
    });
    uses.count() > 0
}

#[cfg(test)]
fn made_up() -> Vec<File> {
    vec![
        File::new(
            "lib/a/Cargo.toml",
            "[dependencies]\nserde-json = \"1\"\nlibc.workspace = true\n[dev-dependencies]\nloom = \"1\"\ntempfile = \"1\"\n",
        ),
        File::new("lib/a/src/lib.rs", "mod one;\n#[cfg(test)]\nmod tests;\npub use one::Used;\n"),
        File::new(
            "lib/a/src/one.rs",
            "pub struct Used;\npub struct Dead;\nimpl Dead {}\npub(crate) fn f() { libc::abort() }\n",
        ),
        File::new("lib/a/src/tests.rs", "use serde_json::Value;\nuse tempfile::tempdir;\n"),
        File::new("lib/a/src/lost.rs", "fn g() {}\n"),
    ]
}

#[test]
fn unused_dependencies_are_found() {
    let files = made_up();
    let found = dependencies(&files, &modules::targets(&files));
    let ends: Vec<&str> = found.iter().map(|p| p.rsplit("the ").next().unwrap_or_default()).collect();
    assert_eq!(ends, ["dependency serde-json", "dev-dependency loom"]);
}

#[test]
fn dead_files_are_found() {
    let files = made_up();
    let found = dead_files(&files, &modules::targets(&files));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("lib/a/src/lost.rs:"));
}

#[test]
fn dead_items_are_found_and_the_list_of_kept_ones_is_held_to_the_code() {
    let files = made_up();
    let targets = modules::targets(&files);
    let one = "lib/a/src/one.rs";
    let found = judge(&files, &targets, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("struct Dead"));
    assert_eq!(judge(&files, &targets, &[(one, "Dead", "a reason")]), Vec::<String>::new());
    let found = judge(&files, &targets, &[(one, "Dead", "a reason"), (one, "Used", "a reason")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("Used is in the list"));
}
