//! Device specs as the command takes them: from files, and with paths of any bytes.

use crate::run::{fails_saying, json, ok, platter, stderr, text};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use tempfile::tempdir;

#[test]
fn a_spec_is_read_from_a_file() {
    let dir = tempdir().unwrap();
    let (disk, stack, wrong) =
        (dir.path().join("disk"), dir.path().join("stack.spec"), dir.path().join("wrong.spec"));
    fs::write(&disk, vec![7; 1 << 20]).unwrap();
    fs::write(&stack, format!("# the second half\npartition(\n  offset=512K,\n  {}\n)\n", text(&disk)))
        .unwrap();
    let named = format!("@{}", text(&stack));
    let info = json(&["info", &named]);
    assert_eq!((&info[0]["size"], &info[0]["spec"]), (&(512 << 10).into(), &named.as_str().into()));
    ok(&["copy", "--verify", &named, text(&dir.path().join("half"))]);

    // An invalid spec is shown with its position in the file, and is wrong usage; a missing file is not.
    fs::write(&wrong, "partition(\n  ofset=512K,\n  ram(1M)\n)\n").unwrap();
    let wrong_named = format!("@{}", text(&wrong));
    let words = ["   2 |   ofset=512K,", "did you mean `offset`", &format!("that in {}", text(&wrong))];
    fails_saying(2, &["info", &wrong_named], &words);
    let words = ["/nowhere/at/all.spec", "(ENOENT); check the path\n", "./@"];
    fails_saying(3, &["info", "@/nowhere/at/all.spec"], &words);
    fails_saying(2, &["info", "@"], &["must be followed by the path of a file", "@stack.spec"]);
    fs::write(&wrong, b"ram(\xff)").unwrap();
    fails_saying(2, &["info", &wrong_named], &["not UTF-8", "byte 4"]);
    fs::write(&wrong, vec![b' '; (1 << 20) + 1]).unwrap();
    fails_saying(2, &["info", &wrong_named], &["at most 1048576"]);

    // A file of such a name can be named all the same.
    fs::write(dir.path().join("@odd"), vec![0; 4096]).unwrap();
    let output = platter().current_dir(&dir).args(["info", "--json", "./@odd"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let output = platter().current_dir(&dir).args(["info", "--json", "file(@odd)"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_path_that_is_not_utf_8_can_be_named() {
    let dir = tempdir().unwrap();
    let path = dir.path().join(OsStr::from_bytes(b"caf\xe9 1.img"));
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let spec = format!(r#"file("{}/caf\xe9 1.img", driver=threads)"#, text(dir.path()));
    assert_eq!(json(&["info", &spec])[0]["driver"]["name"], "threads");
    let copied = dir.path().join(OsStr::from_bytes(b"\xff"));
    let output = platter().arg("copy").arg(&path).arg(&copied).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(&copied).unwrap(), vec![7; 1 << 20]);
    let output = platter()
        .arg("bench")
        .arg("io")
        .arg("--on")
        .arg(&copied)
        .args(["--number_ios", "10"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));

    let mut mixed = OsString::from("file(");
    mixed.push(&path);
    mixed.push(OsString::from_vec(b", depth=4)".to_vec()));
    let output = platter().arg("info").arg(&mixed).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(r"\xHH") && said.contains(r#"file("caf\xe9.img", depth=64)"#), "{said}");
}

#[test]
fn a_path_with_characters_of_the_language_is_told_to_be_quoted() {
    let dir = tempdir().unwrap();
    for name in
        ["a,b.img", "a)b.img", "a(b.img", "a=b.img", "#a.img", "a b.img", "x.img ", " x.img", "x.img #1"]
    {
        let path = dir.path().join(name);
        fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    }
    fs::File::create(dir.path().join("x.img")).unwrap().set_len(1 << 20).unwrap();
    for name in
        ["a,b.img", "a)b.img", "a(b.img", "a=b.img", "#a.img", "a b.img", "x.img ", " x.img", "x.img #1"]
    {
        let run = |spec: &str| platter().current_dir(dir.path()).args(["info", spec]).output().unwrap();
        let output = run(name);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(&format!("\"{name}\"")) && said.contains("quotes"), "{name}: {said}");
        let output = run(&format!("\"{name}\""));
        assert!(output.status.success(), "{name}: {}", stderr(&output));
    }
    // Nor is a file made under another name.
    let output = platter().current_dir(dir.path()).args(["copy", "ram(1M)", "new.img "]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!dir.path().join("new.img").exists() && !dir.path().join("new.img ").exists());
}
