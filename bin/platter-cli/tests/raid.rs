//! Arrays whose members describe them, on files and on simulated disks.

use flate2::read::GzDecoder;
use platter::raid::{self, Array, Held, RaidError};
use platter::registry::{self, Access};
use platter::sim::World;
use platter::{Device, open};
use platter_stack::array_metadata::{Layout, Select};
use std::io::Read;
use std::path::{Path, PathBuf};

fn spec(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

/// Members of 8 MiB, made into an array.
fn make(dir: &Path, names: &[&str], array: &Array) -> Vec<String> {
    let members: Vec<String> = names.iter().map(|name| spec(dir, name)).collect();
    let create: Vec<String> = members.iter().map(|path| format!("file({path}, create=8M)")).collect();
    let devices = raid::open_members(&create, Access::read_write()).unwrap();
    raid::create(&devices, array).unwrap();
    members
}

fn named(name: &str) -> Array {
    Array { name: name.into(), ..Array::default() }
}

#[test]
fn an_array_comes_back_with_its_members_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    for layout in [Layout::Raid0, Layout::Concat] {
        let array = Array { layout, chunk: 16 << 10, ..named(layout.name()) };
        let names = [0, 1, 2].map(|i| format!("{}{i}", layout.name()));
        let members = make(dir.path(), &names.each_ref().map(String::as_str), &array);
        let data: Vec<u8> = (0..1u32 << 20).map(|i| (i / 512) as u8).collect();
        {
            let disk = open(&format!("raid({})", members.join(", ")), Access::read_write()).unwrap();
            assert_eq!(disk.size(), 3 * (7 << 20));
            disk.write_at(&data, 12345).unwrap();
            disk.flush().unwrap();
        }
        let reversed: Vec<String> = members.iter().rev().cloned().collect();
        let again = format!("raid(name={}, {})", layout.name(), reversed.join(", "));
        let disk = open(&again, Access::read()).unwrap();
        let mut back = vec![0; data.len()];
        disk.read_at(&mut back, 12345).unwrap();
        assert!(back == data, "{layout:?}");
    }
}

fn refused(spec: &str) -> String {
    match open(spec, Access::read_write()) {
        Ok(_) => panic!("{spec} opens"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_wrong_with_the_members_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let a = make(dir.path(), &["a0", "a1"], &named("a"));
    let b = make(dir.path(), &["b0", "b1"], &named("b"));
    let lost = raid::examine(&open(&a[1], Access::read()).unwrap()).unwrap();
    let Held::Platter(slots) = lost else { panic!("{lost:?}") };
    let record = slots.newest().unwrap();
    let missing = format!("these are missing: 1 (member {})", record.member);
    let said = refused(&format!("raid({})", a[0]));
    assert!(said.contains(&missing) && said.contains(&format!("\"a\" ({}) has 2", record.array)), "{said}");
    assert!(
        refused(&format!("raid({}, {}, {})", a[0], a[1], b[0])).contains("member of another array, \"b\"")
    );
    assert!(
        refused(&format!("raid({}, {})", a.join(", "), b.join(", ")))
            .contains("choose one with uuid= or name=")
    );
    assert!(refused(&format!("raid(name=c, {})", a.join(", "))).contains("member of another array"));
    assert!(refused(&format!("raid(uuid=12, {})", a.join(", "))).contains("32 hexadecimal digits"));
    let blank = spec(dir.path(), "blank");
    std::fs::write(&blank, vec![0; 8 << 20]).unwrap();
    assert!(refused(&format!("raid({}, {blank})", a.join(", "))).contains("is not a member of an array"));
    let copy = spec(dir.path(), "copy");
    std::fs::copy(&a[1], &copy).unwrap();
    assert!(refused(&format!("raid({}, {copy})", a.join(", "))).contains("are both member 1"));
}

#[test]
fn an_old_copy_of_a_member_is_stale_once_the_array_was_written_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let members = make(dir.path(), &["a0", "a1"], &named("a"));
    let copy = spec(dir.path(), "copy");
    std::fs::copy(&members[1], &copy).unwrap();
    drop(open(&format!("raid({})", members.join(", ")), Access::read_write()).unwrap());
    assert!(refused(&format!("raid({}, {copy})", members[0])).contains("an old copy?"));
    open(&format!("raid({})", members.join(", ")), Access::read()).unwrap();
}

#[test]
fn a_member_is_not_overwritten_by_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let members = make(dir.path(), &["a0", "a1"], &named("a"));
    let said = refused(&members[0]);
    assert!(said.contains("platter array at byte"), "{said}");
    let error = raid::open_members(&members, Access::read_write()).expect_err("refused");
    assert!(error.to_string().contains("platter array"), "{error}");
    let force = Access { force: true, ..Access::read_write() };
    let devices = raid::open_members(&members, force).unwrap();
    raid::wipe(&devices).unwrap();
    drop(devices);
    open(&members[0], Access::read_write()).unwrap();
    let devices = raid::open_members(&members, Access::read_write()).unwrap();
    let error = raid::wipe(&devices).unwrap_err().to_string();
    assert!(error.contains("holds no records of a Platter array"), "{error}");
}

#[test]
fn bad_chunks_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| format!("file({}, create=8M)", spec(dir.path(), name)));
    let devices = raid::open_members(&paths, Access::read_write()).unwrap();
    for (chunk, told) in [
        (0, "chunk=0 "),
        (1, "chunk=1 "),
        (1000, "chunk=1000 "),
        (65537, "chunk=65537 "),
        (2 << 30, "chunk=2G "),
    ] {
        let error = raid::create(&devices, &Array { chunk, ..named("a") }).unwrap_err();
        assert!(error.to_string().contains(told) && matches!(error, RaidError::Argument(_)), "{error}");
    }
    drop(devices);
    assert!(std::fs::read(dir.path().join("a")).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn a_thousand_members_make_an_array() {
    let world = World::new(1);
    let spec = registry::parse("sim(ideal)").unwrap();
    let devices: Vec<Device> =
        (0..1000).map(|_| registry::open_in(&world, &spec, Access::read_write()).unwrap()).collect();
    raid::create(&devices, &named("large")).unwrap();
    let disk = raid::assemble(&Select::Name("large".into()), &devices, true).unwrap();
    disk.write_at(&[7; 4096], 999 * 65536).unwrap();
    let mut back = [0; 4096];
    disk.read_at(&mut back, 999 * 65536).unwrap();
    assert_eq!(back, [7; 4096]);
}

/// A member of an array that mdadm made, unpacked.
fn unpack(dir: &Path, name: &str) -> PathBuf {
    let packed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../lib/platter-md/tests/md/{name}.gz"));
    let mut bytes = Vec::new();
    GzDecoder::new(std::fs::File::open(packed).unwrap()).read_to_end(&mut bytes).unwrap();
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn arrays_of_md_are_read_without_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    for (name, members, size) in [
        ("r0v12", 3, 12189696),
        ("r0v10", 2, 8355840),
        ("r0v11", 2, 8257536),
        ("linv12", 2, 7077888),
        ("zones", 4, 13107200),
    ] {
        let paths: Vec<PathBuf> = (0..members).map(|i| unpack(dir.path(), &format!("{name}.{i}"))).collect();
        let members: Vec<&str> = paths.iter().rev().map(|path| path.to_str().unwrap()).collect();
        let disk = open(&format!("md({})", members.join(", ")), Access::read()).unwrap();
        assert_eq!(disk.size(), size, "{name}");
        let mut bytes = vec![0; disk.size() as usize];
        disk.read_at(&mut bytes, 0).unwrap();
        for (sector, bytes) in bytes.chunks_exact(512).enumerate() {
            let expected = format!("{sector:015}\n");
            assert_eq!(&bytes[..16], expected.as_bytes(), "{name}: sector {sector}");
            assert_eq!(&bytes[496..], expected.as_bytes(), "{name}: sector {sector}");
        }
        let said = match open(&format!("md({})", members[0]), Access::read()) {
            Ok(_) => panic!("{name} opens with one member"),
            Err(error) => error.to_string(),
        };
        assert!(said.contains("these are missing: 0"), "{said}");
    }
}

#[test]
fn arrays_of_md_are_told_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [0, 1].map(|i| unpack(dir.path(), &format!("r0v11.{i}")).to_str().unwrap().to_owned());
    let said = refused(&format!("md({a}, {b})"));
    assert!(said.contains("read only") && said.contains("mdadm"), "{said}");
    let said = refused(&format!("raid({a}, {b})"));
    assert!(said.contains(&format!("open it with md({a}, {b})")), "{said}");
    let mine = make(dir.path(), &["mine0", "mine1"], &named("mine"));
    let said = refused(&format!("raid({}, {}, {b})", mine[0], mine[1]));
    assert!(said.contains(&format!("{b} is a member of an array of Linux' md")), "{said}");
}

#[test]
fn an_array_finds_its_members_in_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let place = spec(dir.path(), "");
    let members = make(dir.path(), &["x1", "x0"], &named("data"));
    make(dir.path(), &["other"], &named("other"));
    std::fs::write(spec(dir.path(), "blank"), vec![0; 1 << 20]).unwrap();
    std::fs::write(spec(dir.path(), "empty"), b"").unwrap();
    std::fs::create_dir(spec(dir.path(), "directory")).unwrap();
    // A second way to a member is not a second member.
    std::os::unix::fs::symlink(&members[0], spec(dir.path(), "link")).unwrap();
    std::os::unix::fs::symlink("nowhere", spec(dir.path(), "dangling")).unwrap();
    let by_name = format!("raid(name=data, search={place})");
    open(&by_name, Access::read_write()).unwrap().write_at(b"found", 65533).unwrap();
    let mut back = [0; 5];
    let shown = platter(&["info", "--json", &by_name]).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (shown[0]["kernel"].as_array().unwrap().len(), &shown[0]["kernel"][1]["kind"]),
        (2, &"file".into())
    );
    let disk = open(&format!("raid({})", members.join(", ")), Access::read()).unwrap();
    disk.read_at(&mut back, 65533).unwrap();
    assert_eq!((&back, disk.size()), (b"found", 14 << 20));
    drop(disk);

    std::fs::rename(&members[1], spec(dir.path(), "directory/away")).unwrap();
    let said = refused(&by_name);
    assert!(said.contains("these are missing: 1 (member ") && said.contains("were examined in"), "{said}");
    let said = refused(&format!("raid(name=gone, search={place})"));
    assert!(said.contains("no member of an array called \"gone\" was found"), "{said}");
    assert!(refused("raid()").contains("does not say which array is meant"));
    assert!(refused("raid(name=data, search=/nowhere/at/all)").contains("/nowhere/at/all"));
    assert!(refused(&format!("raid(name=data, search={place}, {})", members[0])).contains("no effect"));
}

/// A loop device over a file; removed when dropped.
struct Loop(String);

impl Loop {
    /// `None` where this user or container may not have one.
    fn over(path: &str) -> Option<Loop> {
        let output = std::process::Command::new("losetup").args(["--find", "--show", path]).output().ok()?;
        output.status.success().then(|| Loop(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn an_array_finds_its_members_among_the_block_devices() {
    let dir = tempfile::tempdir().unwrap();
    // Another run of this test may be under way on the same machine.
    let name = format!("platter-test-{}", std::process::id());
    let members = make(dir.path(), &["a0", "a1"], &named(&name));
    let (Some(first), Some(second)) = (Loop::over(&members[0]), Loop::over(&members[1])) else {
        eprintln!("skipped: no loop device can be had here");
        return;
    };
    let disk = open(&format!("raid(name={name})"), Access::read()).unwrap();
    assert_eq!(disk.size(), 14 << 20);
    drop(disk);
    open(&format!("raid(name={name})"), Access::read_write()).unwrap().write_at(b"found", 65533).unwrap();
    let shown = platter(&["raid", "examine"]).unwrap();
    for device in [&first.0, &second.0] {
        assert!(shown.contains(&format!("{device}\n  member ")), "{device}: {shown}");
    }
    assert!(shown.contains("block devices: "), "{shown}");
    let all: serde_json::Value =
        serde_json::from_str(&platter(&["raid", "examine", "--json"]).unwrap()).unwrap();
    let mine = all.as_array().unwrap().iter().filter(|found| found["name"] == name.as_str()).count();
    assert_eq!(mine, 2);
}

/// Runs the command. Returns its output, or its status and error.
fn platter(arguments: &[&str]) -> Result<String, (i32, String)> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_platter"));
    let output = command.args(arguments).output().unwrap();
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).unwrap()),
        code => Err((code.unwrap(), String::from_utf8(output.stderr).unwrap())),
    }
}

#[test]
fn the_command_makes_shows_and_wipes_an_array() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| spec(dir.path(), name));
    for path in &paths {
        std::fs::write(path, vec![0; 4 << 20]).unwrap();
    }
    let [a, b] = paths.each_ref().map(String::as_str);
    let made = platter(&["raid", "create", "--json", "--name", "data", "--chunk", "32K", a, b]).unwrap();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["layout"], &made["chunk_bytes"]), (&"raid0".into(), &32768.into()));

    let shown = platter(&["raid", "examine", "--json", b, a]).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    for (device, index) in [(0, 1), (1, 0)] {
        let of = &shown[device];
        assert_eq!((&of["kind"], &of["uuid"]), (&"platter".into(), &made["uuid"]));
        assert_eq!((&of["index"], &of["members"]), (&index.into(), &2.into()));
        assert_eq!((&of["state"], &of["data_bytes"]), (&"committed".into(), &(3 << 20).into()));
    }
    assert!(platter(&["raid", "examine", a]).unwrap().contains("member 0 of 2 of raid0 \"data\""));

    // Random data over one record leaves the array intact, and is reported.
    let mut bytes = std::fs::read(a).unwrap();
    bytes[4096..8192].fill(0x5a);
    let scratched = spec(dir.path(), "scratched");
    std::fs::write(&scratched, bytes).unwrap();
    assert!(
        platter(&["raid", "examine", &scratched])
            .unwrap()
            .contains("one of the two records has been overwritten")
    );
    let shown: serde_json::Value =
        serde_json::from_str(&platter(&["raid", "examine", "--json", &scratched, a]).unwrap()).unwrap();
    assert_eq!((&shown[0]["records"], &shown[1]["records"]), (&1.into(), &2.into()));

    let (code, said) = platter(&["raid", "create", a, b]).unwrap_err();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("platter array at byte"), "{said}");
    let (code, said) = platter(&["raid", "create", "--force", "--chunk", "3K", a, b]).unwrap_err();
    assert!(code == 2 && said.contains("chunk=3K"), "{said}");
    let (code, said) = platter(&["raid", "wipe", a, b]).unwrap_err();
    assert!(code == 2 && said.contains("--force"), "{said}");

    platter(&["raid", "wipe", "--force", a, b]).unwrap();
    assert!(platter(&["raid", "examine", a]).unwrap().contains("no records of an array"));
}

#[test]
fn an_array_without_a_name_is_given_one() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| format!("file({}, create=4M)", spec(dir.path(), name)));
    let made = platter(&["raid", "create", "--json", &a, &b]).unwrap();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let name = format!("array-{}", &made["uuid"].as_str().unwrap()[..8]);
    assert_eq!(made["name"], name.as_str());
    let shown = platter(&["info", "--json", &format!("raid(name={name}, {a}, {b})")]).unwrap();
    assert!(shown.contains("raid0"), "{shown}");
    let (code, said) = platter(&["raid", "create", "--name", "", &a, &b]).unwrap_err();
    assert!(code == 2 && said.contains("--name"), "{said}");
    let (code, said) =
        platter(&["raid", "create", "--force", "--name", &"x".repeat(65), &a, &b]).unwrap_err();
    assert!(code == 2 && said.contains("64 are possible"), "{said}");
}

#[test]
fn examine_tells_of_devices_that_cannot_be_opened_and_shows_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let members = make(dir.path(), &["m0", "m1"], &named("data"));
    let missing = spec(dir.path(), "missing");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_platter"))
        .args(["raid", "examine", "--json", &missing, &members[1]])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&shown[0]["kind"], &shown[1]["kind"]), (&"unopened".into(), &"platter".into()));
    assert!(shown[0]["problem"].as_str().unwrap().contains("ENOENT"));

    std::fs::write(spec(dir.path(), "blank"), vec![0; 1 << 20]).unwrap();
    let place = spec(dir.path(), "");
    let shown = platter(&["raid", "examine", "--search", &place]).unwrap();
    assert!(shown.contains("member 0 of 2") && shown.contains("member 1 of 2"), "{shown}");
    assert!(
        shown.contains("3 devices and files in") && shown.contains("2 with something of an array"),
        "{shown}"
    );
    let (code, said) = platter(&["raid", "examine", "--search", &missing]).unwrap_err();
    assert!(code == 3 && said.contains(&missing), "{said}");
}

#[test]
fn wipe_tells_wrong_usage_from_a_device_that_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let blank = spec(dir.path(), "blank");
    std::fs::write(&blank, vec![0; 1 << 20]).unwrap();
    let (code, said) = platter(&["raid", "wipe", "--force", &blank]).unwrap_err();
    assert!(code == 4 && said.contains("holds no records of a Platter array"), "{said}");
    let (code, said) = platter(&["raid", "create", &blank]).unwrap_err();
    assert!(code == 4 && said.contains("it must have at least"), "{said}");
    let (code, said) = platter(&["info", &format!("raid({blank})")]).unwrap_err();
    assert!(code == 3 && said.contains("is not a member of an array"), "{said}");
}

#[test]
fn the_command_shows_what_md_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpack(dir.path(), "zones.2");
    let shown = platter(&["raid", "examine", "--json", path.to_str().unwrap()]).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let of = &shown[0];
    assert_eq!((&of["kind"], &of["layout"], &of["version"]), (&"md".into(), &"raid0".into(), &"1.2".into()));
    assert_eq!((&of["index"], &of["members"], &of["chunk_bytes"]), (&2.into(), &4.into(), &32768.into()));
    assert!(
        platter(&["raid", "examine", path.to_str().unwrap()]).unwrap().contains("member 2 of 4 of md raid0")
    );
}
