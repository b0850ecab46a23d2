//! Every crate can be packaged as it would be published, and its package is whole.

use flate2::read::GzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The files of a package with their contents, by their path in it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Reads a tar archive of regular files, as cargo writes them.
fn untar(bytes: &[u8]) -> Files {
    let text = |field: &[u8]| {
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).trim().to_owned()
    };
    let mut files = Files::new();
    let (mut at, mut long_name) = (0, None);
    while at + 512 <= bytes.len() && bytes[at] != 0 {
        let header = &bytes[at..at + 512];
        let size = usize::from_str_radix(&text(&header[124..136]), 8).expect("a size in octal");
        let content = &bytes[at + 512..at + 512 + size];
        let name = long_name.take().unwrap_or_else(|| text(&header[..100]));
        // L: the name of the next file, which is too long for its header.
        if header[156] == b'L' {
            long_name = Some(text(content));
        } else {
            // The first part is the name of the package.
            let inside: PathBuf = Path::new(&name).components().skip(1).collect();
            files.insert(inside, content.to_vec());
        }
        at += 512 + size.next_multiple_of(512);
    }
    files
}

/// Are not published.
const OWN: [&str; 2] = ["platter-fuzz", "platter-engines"];

/// Packages all published crates, without building them again. Returns their contents.
fn packages() -> BTreeMap<String, Files> {
    let target = tempfile::tempdir().expect("a directory");
    let run = |more: &[&str]| {
        let mut package = Command::new(env!("CARGO"));
        package
            .args(["package", "--workspace", "--exclude", OWN[0], "--exclude", OWN[1]])
            .args(["--no-verify", "--allow-dirty"])
            .arg("--target-dir");
        package.arg(target.path()).args(more);
        package.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).output().expect("cargo runs")
    };
    // The registry is used only if the packages downloaded earlier are not sufficient.
    let mut output = run(&["--offline"]);
    if !output.status.success() {
        output = run(&[]);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let crates = fs::read_dir(target.path().join("package")).expect("packages");
    let crates = crates.map(|entry| entry.expect("an entry").path());
    let crates = crates.filter(|path| path.extension().is_some_and(|end| end == "crate"));
    let read = |path: PathBuf| {
        let mut bytes = Vec::new();
        GzDecoder::new(File::open(&path).expect("a package")).read_to_end(&mut bytes).expect("it is gzipped");
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (stem.rsplit_once('-').expect("name and version").0.to_owned(), untar(&bytes))
    };
    crates.map(read).collect()
}

/// The value of a key of `[package]`.
fn value(manifest: &str, key: &str) -> Option<String> {
    let package = manifest.split("[package]").nth(1)?.split("\n[").next()?;
    let line = package.lines().find(|line| line.split('=').next().is_some_and(|name| name.trim() == key))?;
    Some(line.split_once('=')?.1.trim().to_owned())
}

/// `a/../b` without the detour; `None` if it leads out of the package.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !out.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            other => out.push(other),
        }
    }
    Some(out)
}

/// The files that the sources of a package include and that are not in it.
fn not_included(files: &Files) -> Vec<String> {
    let mut missing = Vec::new();
    for (path, content) in files.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "rs")) {
        let text = String::from_utf8_lossy(content);
        for start in ["include_str!(\"", "include_bytes!(\"", "#[path = \""] {
            for rest in text.split(start).skip(1) {
                let named = rest.split('"').next().unwrap_or_default();
                let wanted = plain(&path.parent().unwrap_or(Path::new("")).join(named));
                if wanted.is_none_or(|wanted| !files.contains_key(&wanted)) {
                    missing.push(format!("{}: {named}", path.display()));
                }
            }
        }
    }
    missing
}

#[test]
fn every_package_is_whole_and_says_what_it_is() {
    let packages = packages();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = ["lib", "bin", "lab"].map(|part| fs::read_dir(root.join(part)).expect("the crates"));
    let rooms: Vec<String> = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .filter(|room| !OWN.contains(&room.as_str()))
        .collect();
    assert!(rooms.len() > 20, "{rooms:?}");
    let (mut descriptions, mut readmes) = (BTreeSet::new(), BTreeSet::new());
    for room in &rooms {
        let files =
            packages.get(room).unwrap_or_else(|| panic!("{room} is not packaged: {:?}", packages.keys()));
        for (name, word) in [
            ("LICENSE-MIT", "Permission is hereby granted"),
            ("LICENSE-APACHE", "Apache License"),
            ("README.md", room),
        ] {
            let text = files.get(Path::new(name)).unwrap_or_else(|| panic!("{room} has no {name}"));
            assert!(String::from_utf8_lossy(text).contains(word), "{room}: {name}");
        }
        readmes.insert(&files[Path::new("README.md")]);
        let manifest = String::from_utf8_lossy(&files[Path::new("Cargo.toml")]).into_owned();
        for key in ["description", "keywords", "categories", "license", "readme", "rust-version"] {
            assert!(value(&manifest, key).is_some(), "{room}: no {key}");
        }
        assert!(
            descriptions.insert(value(&manifest, "description")),
            "{room}: the description of another crate"
        );
        assert_eq!(not_included(files), Vec::<String>::new(), "{room}");
        assert!(!files.keys().any(|path| path.starts_with("tests")), "{room}: tests that cannot run alone");
    }
    assert_eq!((readmes.len(), packages.len()), (rooms.len(), rooms.len()));
}

#[test]
fn what_is_included_from_outside_is_found() {
    let source = |text: &str| Files::from([(PathBuf::from("src/a/lib.rs"), text.as_bytes().to_vec())]);
    for (text, found) in [
        ("include_str!(\"../../../docs/x.md\")", 1),
        ("include_str!(\"../../docs/x.md\")", 1),
        ("#[path = \"lib.rs\"] mod a; include_bytes!(\"gone\")", 1),
    ] {
        assert_eq!(not_included(&source(text)).len(), found, "{text}");
    }
}
