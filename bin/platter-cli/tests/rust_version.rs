//! The oldest Rust that Cargo.toml promises. `scripts/check-rust-version` builds with it if it is installed;
//! these tests check what is possible without it. Clippy checks the standard library's functions
//! (`incompatible_msrv`).

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::tempdir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `1.88` or `1.88.0` as numbers that compare.
fn version(text: &str) -> Vec<u64> {
    let mut parts: Vec<u64> = text.split('.').map(|part| part.parse().expect("a number")).collect();
    parts.resize(3, 0);
    parts
}

#[test]
fn no_dependency_needs_a_newer_rust() {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let told = String::from_utf8_lossy(&rustc.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let of = |package: &Value| package["rust_version"].as_str().map(version);
    let own =
        packages.iter().find(|package| package["name"] == "platter").and_then(of).expect("it says its Rust");
    let used = used_without(&metadata, "platter-engines");
    let newer: Vec<String> = packages
        .iter()
        .filter(|package| used.contains(package["id"].as_str().unwrap_or_default()))
        .filter(|package| of(package).is_some_and(|needed| needed > own))
        .map(|package| {
            format!("{} {} needs {}", package["name"], package["version"], package["rust_version"])
        })
        .collect();
    assert_eq!(newer, Vec::<String>::new());
    assert!(used.len() > 50, "all packages are looked at: {}", used.len());
}

/// The packages that the workspace uses without this member, whose engines need a newer Rust. It is not published, and
/// no other package uses it.
fn used_without(metadata: &Value, member: &str) -> BTreeSet<String> {
    let id = |node: &Value| node["id"].as_str().unwrap_or_default().to_owned();
    let names = metadata["packages"].as_array().expect("packages");
    let left_out: Vec<String> = names.iter().filter(|package| package["name"] == member).map(id).collect();
    assert_eq!(left_out.len(), 1, "{member}");
    let members = metadata["workspace_members"].as_array().expect("members");
    let mut next: Vec<String> = members.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    next.retain(|id| *id != left_out[0]);
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let mut used = BTreeSet::new();
    while let Some(one) = next.pop() {
        let node = nodes.iter().find(|node| id(node) == one).expect("a node for each package");
        if used.insert(one) {
            let uses = node["dependencies"].as_array().expect("dependencies");
            next.extend(uses.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    assert!(!used.contains(&left_out[0]), "{member} is used by another package");
    used
}

/// Runs the script with a fake `rustup` that lists these toolchains and records its arguments.
fn script(toolchains: &str) -> (bool, String, String) {
    let dir = tempdir().expect("a directory");
    let (rustup, log) = (dir.path().join("rustup"), dir.path().join("log"));
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = toolchain ]; then printf '{toolchains}'; else echo \"$@\" > {}; fi\n",
        log.display()
    );
    // Written by a child: a descriptor that is open for writing here could be inherited by the child of another test,
    // and a program that is open for writing cannot be run.
    let write = "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"";
    let written = Command::new("sh").args(["-c", write, "sh", &text]).arg(&rustup).status();
    assert!(written.is_ok_and(|status| status.success()));
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .arg(root().join("scripts/check-rust-version"))
        .env("PATH", path)
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), said, fs::read_to_string(&log).unwrap_or_default())
}

#[test]
fn the_script_builds_with_the_promised_version_or_skips_with_one_line() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let promised =
        manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")).expect("a version");
    let promised = promised.trim_end_matches('"');
    let (fine, said, ran) =
        script("stable-x86_64-unknown-linux-gnu (active)\\n1.9-x86_64-unknown-linux-gnu\\n");
    assert!(fine && ran.is_empty(), "{said}");
    assert_eq!((said.lines().count(), said.starts_with("skipped: Rust ")), (1, true), "{said}");
    assert!(said.contains(promised), "{said}");
    let (fine, said, ran) =
        script(&format!("stable-x86_64 (default)\\n{promised}.0-x86_64-unknown-linux-gnu\\n"));
    assert!(fine, "{said}");
    assert!(
        ran.starts_with(&format!("run {promised}.0-x86_64-unknown-linux-gnu cargo check --workspace")),
        "{ran}"
    );
}
