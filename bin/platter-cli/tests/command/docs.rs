//! The specs that the documentation shows.

use crate::run::{json, run};
use platter::registry::{self, Access};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

/// The lines of all blocks marked `spec` in the pages.
fn specs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|end| end == "md"));
    let mut found = Vec::new();
    for page in pages.chain([root.join("README.md")]) {
        let text = fs::read_to_string(page).unwrap();
        let mut lines = text.lines();
        while lines.by_ref().any(|line| line == "```spec") {
            found.extend(lines.by_ref().take_while(|line| *line != "```").map(str::to_owned));
        }
    }
    found
}

/// The section of docs/command.md about a verb's JSON.
fn section(verb: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    let page = fs::read_to_string(page).unwrap();
    let rest = page.split(&format!("\n### {verb}\n")).nth(1).unwrap_or_else(|| panic!("no section {verb}"));
    rest.split("\n### ").next().unwrap().to_owned()
}

/// All keys of a JSON value, but not those of objects whose keys are names: facts, parameters.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                if !["facts", "params"].contains(&key.as_str()) {
                    keys(value, found);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[track_caller]
pub(crate) fn documented(verb: &str, values: &[Value]) {
    let mut found = BTreeSet::new();
    values.iter().for_each(|value| keys(value, &mut found));
    let section = section(verb);
    let missing: Vec<&String> = found.iter().filter(|key| !has_key(&section, key)).collect();
    assert!(missing.is_empty(), "{verb}: docs/command.md lacks {missing:?}");
}

/// Whether a section names a key, alone or in a list of keys.
fn has_key(section: &str, key: &str) -> bool {
    let quoted = section.split('`').skip(1).step_by(2);
    quoted.flat_map(|text| text.split([',', '{', '}', ' '])).any(|word| word.trim() == key)
}

#[test]
fn every_key_of_copy_info_map_and_raid_is_documented() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [a, b, map, copy] = ["a", "b", "map", "copy"].map(path);
    let failing = format!("error(op=read, offset=4K, length=512, file({a}, create=4M))");
    let create = |path: &str| format!("file({path}, create=4M)");
    let md = ["c", "d"].map(|name| create(&path(name)));
    let md = json(&["raid", "create", "--format", "md1.2", "--level", "1", &md[0], &md[1]]);
    documented("raid create", &[json(&["raid", "create", &create(&a), &create(&b)]), md]);
    let examine = [
        json(&["raid", "examine", &a]),
        serde_json::from_slice(&run(&["raid", "examine", "--json", "/nowhere/at/all"]).stdout).unwrap(),
    ];
    documented("raid examine", &examine);
    let rescue = run(&["copy", "--json", "--sparse", "never", "--rescue", &map, &failing, &copy]);
    documented("copy", &[serde_json::from_slice(&rescue.stdout).unwrap()]);
    let info = [
        json(&["info", &format!("partition(offset=1M, file({a}, elevator=deadline))")]),
        serde_json::from_slice(&run(&["info", "--json", "/nowhere/at/all"]).stdout).unwrap(),
    ];
    documented("info", &info);
    documented("map", &[json(&["map", &a])]);
    documented("raid wipe", &[json(&["raid", "wipe", "--force", &a, &b])]);
}

#[test]
fn every_spec_of_the_documentation_can_be_read() {
    let specs = specs();
    assert!(specs.len() > 10, "{specs:?}");
    for spec in specs {
        // The files do not exist, but the specs themselves must be valid.
        if let Err(error) = registry::open(&spec, Access::read()) {
            assert!(!error.is_usage(), "{error}");
        }
    }
}
