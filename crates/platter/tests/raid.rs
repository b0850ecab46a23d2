//! Arrays that know themselves, on files and on simulated disks.

use flate2::read::GzDecoder;
use platter::raid::{self, Array};
use platter::registry::{self, Access};
use platter::sim::World;
use platter::{Device, open};
use platter_stack::meta::{Layout, Select};
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
    assert!(refused(&format!("raid({})", a[0])).contains("these are missing: 1"));
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
    assert!(error.contains("holds nothing of an array"), "{error}");
}

#[test]
fn bad_chunks_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| format!("file({}, create=8M)", spec(dir.path(), name)));
    let devices = raid::open_members(&paths, Access::read_write()).unwrap();
    for chunk in [0, 1, 1000, 65537, 2 << 30] {
        let error = raid::create(&devices, &Array { chunk, ..named("a") }).unwrap_err().to_string();
        assert!(error.contains(&format!("chunk={chunk}")), "{error}");
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
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../platter-stack/tests/md/{name}.gz"));
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

/// Runs the command; what it printed, or why it failed with which status.
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

    // Noise over one record leaves the array, and is told.
    let mut bytes = std::fs::read(a).unwrap();
    bytes[4096..8192].fill(0x5a);
    let scratched = spec(dir.path(), "scratched");
    std::fs::write(&scratched, bytes).unwrap();
    assert!(platter(&["raid", "examine", &scratched]).unwrap().contains("one of the two records is gone"));
    let shown: serde_json::Value =
        serde_json::from_str(&platter(&["raid", "examine", "--json", &scratched, a]).unwrap()).unwrap();
    assert_eq!((&shown[0]["records"], &shown[1]["records"]), (&1.into(), &2.into()));

    let (code, said) = platter(&["raid", "create", a, b]).unwrap_err();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("platter array at byte"), "{said}");
    let (code, said) = platter(&["raid", "create", "--force", "--chunk", "3K", a, b]).unwrap_err();
    assert!(code == 2 && said.contains("chunk=3072"), "{said}");
    let (code, said) = platter(&["raid", "wipe", a, b]).unwrap_err();
    assert!(code == 2 && said.contains("--force"), "{said}");

    platter(&["raid", "wipe", "--force", a, b]).unwrap();
    assert!(platter(&["raid", "examine", a]).unwrap().contains("nothing of an array"));
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
