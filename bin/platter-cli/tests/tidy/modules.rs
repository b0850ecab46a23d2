//! The modules of each program and library, and the module that a path in the code leads to.
//!
//! This is a search through text, not a compiler: it knows `mod`, `#[path]`, `use` and re-exports, modules in
//! files of their own, and the names of items. It does not expand macros.

use crate::lexer::{is_word, words};
use crate::text::plain;
use crate::tree::{self, File, HOUSE};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::OnceLock;

/// How many re-exports a path may pass through. More than this is a circle of re-exports.
const MAX_HOPS: usize = 16;

/// A module in a file of its own.
pub(crate) struct Module<'a> {
    pub(crate) file: &'a File,
    parent: Option<usize>,
    children: HashMap<&'a str, usize>,
    /// Whether the module is built only for tests.
    pub(crate) test: bool,
    pub(crate) imports: Vec<Import<'a>>,
    items: HashSet<&'a str>,
}

/// One name that a `use` declaration brings into its module.
pub(crate) struct Import<'a> {
    pub(crate) path: Vec<&'a str>,
    /// The name in this module; `*` for everything.
    name: &'a str,
}

/// A library, program, test or example with all of its modules; the first is its root.
pub(crate) struct Target<'a> {
    pub(crate) modules: Vec<Module<'a>>,
}

impl<'a> Target<'a> {
    fn load(root: &'a File, by_path: &HashMap<&str, &'a File>) -> Target<'a> {
        let mut target = Target { modules: vec![Module::new(root, None, root.is_test())] };
        let mut at = 0;
        while at < target.modules.len() {
            let (file, test) = (target.modules[at].file, target.modules[at].test);
            for declared in declared(file, at == 0) {
                let found = declared.places.iter().find_map(|place| by_path.get(place.as_str()));
                let Some(&child) = found else { continue };
                let number = target.modules.len();
                target.modules.push(Module::new(child, Some(at), test || declared.test));
                target.modules[at].children.insert(declared.name, number);
            }
            at += 1;
        }
        target
    }

    /// Whether one of the modules contains the other.
    pub(crate) fn related(&self, a: usize, b: usize) -> bool {
        let above = |mut below: usize, above: usize| {
            while let Some(parent) = self.modules[below].parent {
                below = parent;
                if below == above {
                    return true;
                }
            }
            false
        };
        a == b || above(a, b) || above(b, a)
    }

    /// The module whose file defines what `path` names, seen from the module `from`. `None` for other crates.
    pub(crate) fn resolve(&self, from: usize, path: &[&str]) -> Option<usize> {
        self.follow(from, path, MAX_HOPS)
    }

    fn follow(&self, from: usize, path: &[&str], hops: usize) -> Option<usize> {
        let hops = hops.checked_sub(1)?;
        let mut at = from;
        for (index, &part) in path.iter().enumerate() {
            let module = &self.modules[at];
            match part {
                "crate" => at = 0,
                "self" => {}
                "super" => at = module.parent?,
                _ if module.children.contains_key(part) => at = module.children[part],
                _ => {
                    let rest = &path[index + 1..];
                    let found = self.bound(at, part, rest, hops);
                    return found.or_else(|| (index > 0 || module.items.contains(part)).then_some(at));
                }
            }
        }
        Some(at)
    }

    /// What a name leads to that `use` brings into the module `at`.
    fn bound(&self, at: usize, name: &str, rest: &[&str], hops: usize) -> Option<usize> {
        let module = &self.modules[at];
        if module.items.contains(name) {
            return Some(at);
        }
        if let Some(import) = module.imports.iter().find(|i| i.name == name) {
            // `use foo::foo` must not look for `foo` here again: the first part is a child or another crate.
            if import.path.first() == Some(&name) && !module.children.contains_key(name) {
                return None;
            }
            let path: Vec<&str> = import.path.iter().chain(rest).copied().collect();
            return self.follow(at, &path, hops);
        }
        for import in module.imports.iter().filter(|i| i.name == "*") {
            let Some(other) = self.follow(at, &import.path, hops) else { continue };
            if other != at && self.modules[other].items.contains(name) {
                return Some(other);
            }
        }
        None
    }

    /// The modules that a module uses, each with a path that leads there: those of its `use` declarations and its
    /// paths from `crate`, `self` or `super`. Neither itself nor one that contains it or that it contains.
    pub(crate) fn uses(&self, from: usize) -> BTreeMap<usize, String> {
        let module = &self.modules[from];
        let imports = module.imports.iter().map(|import| import.path.clone());
        let paths = imports.chain(inline_paths(module.file.live()));
        let found = paths.filter_map(|path| Some((self.resolve(from, &path)?, path.join("::"))));
        found.filter(|&(to, _)| !self.related(from, to)).collect()
    }
}

impl<'a> Module<'a> {
    fn new(file: &'a File, parent: Option<usize>, test: bool) -> Module<'a> {
        let live = file.live();
        let (imports, items) = (imports(live), items(live));
        Module { file, parent, children: HashMap::new(), test, imports, items }
    }
}

/// All libraries, programs, tests and examples of the project. Read once.
pub(crate) fn of_project() -> &'static [Target<'static>] {
    static TARGETS: OnceLock<Vec<Target<'static>>> = OnceLock::new();
    TARGETS.get_or_init(|| targets(tree::files()))
}

/// All libraries, programs, tests and examples among these files.
pub(crate) fn targets(files: &[File]) -> Vec<Target<'_>> {
    let by_path: HashMap<&str, &File> = files.iter().map(|f| (f.path.as_str(), f)).collect();
    files.iter().filter(|f| is_root(f, files)).map(|root| Target::load(root, &by_path)).collect()
}

/// Whether a file is the root of a library, program, test or example.
fn is_root(file: &File, files: &[File]) -> bool {
    let parts: Vec<&str> = file.path.split('/').collect();
    match parts[..] {
        // A program with a manifest of its own, outside the workspace.
        ["scripts", _, "src", "main.rs"] => true,
        [part, ..] if !HOUSE.contains(&part) => false,
        [_, _, "build.rs"] | [_, _, "src", "lib.rs" | "main.rs"] => true,
        [_, _, "src", "bin", name] => name.ends_with(".rs"),
        [_, _, "tests" | "examples" | "benches", name] => name.ends_with(".rs"),
        [_, _, "tests" | "examples" | "benches", _, "main.rs"] => true,
        [part, room, .., name] if name.ends_with(".rs") => {
            let manifest = format!("{part}/{room}/Cargo.toml");
            let inside = parts[2..].join("/");
            files
                .iter()
                .filter(|f| f.path == manifest)
                .any(|f| f.text.contains(&format!("path = \"{inside}\"")))
        }
        _ => false,
    }
}

struct Declared<'a> {
    name: &'a str,
    /// Where the file can be.
    places: Vec<String>,
    test: bool,
}

/// The modules that a file declares and that have files of their own.
fn declared(file: &File, root: bool) -> Vec<Declared<'_>> {
    let (code, live) = (file.code(), file.live());
    let path = Path::new(&file.path);
    let folder = path.parent().unwrap_or(Path::new(""));
    let stem = path.file_stem().unwrap_or_default();
    let below = if root || stem == "mod" { folder.to_path_buf() } else { folder.join(stem) };
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let Some(name) = module_name(line) else { continue };
        let places = match path_attribute(file, number) {
            Some(given) => vec![plain(&folder.join(given))],
            None => vec![plain(&below.join(format!("{name}.rs"))), plain(&below.join(name).join("mod.rs"))],
        };
        let test = live.lines().nth(number).and_then(module_name).is_none();
        found.push(Declared { name, places, test });
    }
    found
}

/// The name in `mod name;`.
fn module_name(line: &str) -> Option<&str> {
    let line = line.trim().strip_suffix(';')?;
    let (before, name) = line.rsplit_once(' ')?;
    let declares = before == "mod" || before.ends_with(" mod");
    (declares && !name.is_empty() && name.chars().all(is_word)).then_some(name)
}

/// The value of `#[path = "…"]` among the attributes above line `number` (from 0).
fn path_attribute(file: &File, number: usize) -> Option<&str> {
    let lines: Vec<&str> = file.text.lines().take(number).collect();
    let mut above = lines.iter().rev().map(|l| l.trim());
    let attributes = above.by_ref().take_while(|l| l.starts_with("#[") || l.starts_with("//"));
    attributes.filter_map(|l| l.strip_prefix("#[path = \"")?.strip_suffix("\"]")).next()
}

/// The names that the `use` declarations of a file bring in.
fn imports(code: &str) -> Vec<Import<'_>> {
    let mut found = Vec::new();
    for at in words(code, "use") {
        let begins = code[..at].trim_end().chars().next_back();
        let begins =
            begins.is_none_or(|c| matches!(c, ';' | '}' | '{' | ']' | ')')) || code[..at].ends_with("pub ");
        let rest = &code[at + 3..];
        if let (true, Some(end)) = (begins, rest.find(';')) {
            tree(&rest[..end], &[], &mut found);
        }
    }
    found
}

/// Reads one tree of `use`: `a::{b, c as d, e::*}`.
fn tree<'a>(text: &'a str, before: &[&'a str], found: &mut Vec<Import<'a>>) {
    let text = text.trim().trim_start_matches("::");
    let (head, group) = match text.find('{') {
        Some(brace) => (&text[..brace], Some(&text[brace + 1..text.rfind('}').unwrap_or(text.len())])),
        None => (text, None),
    };
    let (head, alias) = match head.split_once(" as ") {
        Some((head, alias)) => (head, Some(alias.trim())),
        None => (head, None),
    };
    let mut path = before.to_vec();
    path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()));
    if let Some(group) = group {
        for part in split(group) {
            tree(part, &path, found);
        }
        return;
    }
    let Some(&last) = path.last() else { return };
    if last == "*" || last == "self" {
        path.pop();
    }
    let name = if last == "self" { path.last().copied().unwrap_or_default() } else { last };
    found.push(Import { path, name: alias.unwrap_or(name) });
}

/// The parts of a list at its commas, groups in braces kept whole.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Paths in the code that begin with `crate`, `self` or `super`.
fn inline_paths(code: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for start in ["crate", "self", "super"] {
        for at in words(code, start) {
            let path = path_at(&code[at..]);
            let inside = code[..at].ends_with("::");
            // A path before a group or a star is part of a `use`.
            let whole = !code[at + path.join("::").len()..].starts_with("::");
            if !inside && whole && path.len() > 1 {
                found.push(path);
            }
        }
    }
    found
}

/// The path at the start of a text.
pub(crate) fn path_at(text: &str) -> Vec<&str> {
    let mut path = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if end == 0 {
            return path;
        }
        path.push(&rest[..end]);
        match rest[end..].strip_prefix("::") {
            Some(more) => rest = more,
            None => return path,
        }
    }
}

/// The names of the items that a file defines.
fn items(code: &str) -> HashSet<&str> {
    const KINDS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
    let mut found = HashSet::new();
    for line in code.lines() {
        let mut before = "";
        for word in line.split(|c| !is_word(c)).filter(|word| !word.is_empty()) {
            if KINDS.contains(&before) || before == "macro_rules" || before == "mod" {
                found.insert(word);
            }
            before = word;
        }
    }
    found
}

#[test]
fn paths_lead_through_imports_and_re_exports_to_the_file_that_defines_the_item() {
    let files = [
        File::new(
            "lib/a/src/lib.rs",
            "pub mod one;\nmod two;\npub use two::{deep::Deep, Other as Second};\n",
        ),
        File::new(
            "lib/a/src/one.rs",
            "use crate::{Deep, Second};\nuse core::fmt;\nfn f() { crate::two::g() }",
        ),
        File::new("lib/a/src/two/mod.rs", "pub mod deep;\npub struct Other;\npub use deep::*;\n"),
        File::new("lib/a/src/two/deep.rs", "pub struct Deep;\npub fn g() { super::super::one::f() }\n"),
    ];
    let targets = targets(&files);
    let [target] = &targets[..] else { panic!("one library, not {}", targets.len()) };
    let path = |number: Option<usize>| number.map_or("", |n| target.modules[n].file.path.as_str());
    assert_eq!(path(target.resolve(1, &["crate", "Deep"])), "lib/a/src/two/deep.rs");
    assert_eq!(path(target.resolve(1, &["crate", "two", "g"])), "lib/a/src/two/deep.rs");
    assert_eq!(path(target.resolve(1, &["Second"])), "lib/a/src/two/mod.rs");
    assert_eq!(path(target.resolve(1, &["fmt", "Display"])), "");
    let used: Vec<&str> = target.uses(3).into_keys().map(|n| target.modules[n].file.path.as_str()).collect();
    assert_eq!(used, ["lib/a/src/one.rs"]);
}
