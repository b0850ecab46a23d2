//! Programs of others as clients. A test is skipped where its program is not installed.

use crate::loops::{Loop, Shape};
use crate::{Fixture, serve};
use platter_disk::device::Device;
use std::path::Path;
use std::process::{Command, Output};

/// The URI of the Unix socket.
fn uri(fixture: &Fixture) -> String {
    format!("nbd+unix:///disk?socket={}", fixture.unix.strip_prefix("unix:").unwrap())
}

/// Runs a program; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> Option<String> {
    let output = run(program, arguments)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text)
}

fn image(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 8 << 20];
    for (at, byte) in bytes[1 << 20..2 << 20].iter_mut().enumerate() {
        *byte = (at * 7 + at / 4096) as u8;
    }
    bytes[(8 << 20) - 1] = 1;
    std::fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn nbdinfo_sees_size_flags_and_holes() {
    let fixture = serve(Device::ram(8 << 20).unwrap());
    let Some(text) = succeeds("nbdinfo", &["--json", &uri(&fixture)]) else { return };
    for part in
        ["\"export-size\": 8388608", "\"can_multi_conn\": true", "\"can_fast_zero\": true", "base:allocation"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let map = succeeds("nbdinfo", &["--map", "--totals", &uri(&fixture)]).unwrap();
    assert!(map.contains("hole,zero"), "{map}");
    let list = succeeds("nbdinfo", &["--list", &uri(&fixture)]).unwrap();
    assert!(list.contains("export=\"disk\""), "{list}");
}

#[test]
fn nbdcopy_copies_there_and_back() {
    let fixture = serve(Device::ram(8 << 20).unwrap());
    let (from, to) = (fixture.folder.path().join("from"), fixture.folder.path().join("to"));
    let bytes = image(&from);
    if succeeds("nbdcopy", &[from.to_str().unwrap(), &uri(&fixture)]).is_none() {
        return;
    }
    succeeds("nbdcopy", &[&uri(&fixture), to.to_str().unwrap()]);
    assert!(std::fs::read(&to).unwrap() == bytes);
}

/// Sizes that are no multiple of 512, as raw images of QEMU and archives may have.
#[test]
fn odd_sizes_are_copied_and_compared_to_the_last_byte() {
    for size in [1usize, 511, 5000, 70_001] {
        let folder = tempfile::tempdir().unwrap();
        let [from, to, served] = ["from", "to", "served"].map(|name| folder.path().join(name));
        let bytes: Vec<u8> = (0..size).map(|at| (at * 7 + at / 512) as u8 | 1).collect();
        std::fs::write(&from, &bytes).unwrap();
        std::fs::write(&served, vec![0; size]).unwrap();
        let fixture = serve(crate::open(&format!("file({})", served.display())));
        let (from_text, to_text) = (from.to_str().unwrap(), to.to_str().unwrap());
        if succeeds("nbdcopy", &[from_text, &uri(&fixture)]).is_some() {
            succeeds("nbdcopy", &[&uri(&fixture), to_text]);
            assert!(std::fs::read(&to).unwrap() == bytes, "{size}");
        }
        succeeds("qemu-img", &["info", &uri(&fixture)]);
        succeeds("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri(&fixture), to_text]);
    }
}

/// Calls a test with a fixture over memory, a file and, where there is one, a loop device, each of 8 MiB.
fn on_places(test: impl Fn(&str, &Fixture)) {
    test("memory", &serve(Device::ram(8 << 20).unwrap()));
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(8 << 20).unwrap();
    test("a file", &serve(crate::open(&format!("file({})", file.path().display()))));
    file.as_file().set_len(0).unwrap();
    file.as_file().set_len(8 << 20).unwrap();
    if let Some(node) = Loop::over(file.path(), Shape::PLAIN) {
        test("a loop device", &serve(crate::open(&format!("file({})", node.path.display()))));
    }
}

#[test]
fn qemu_reads_writes_zeroes_discards_and_compares() {
    on_places(|place, fixture| {
        let path = fixture.folder.path().join("image");
        image(&path);
        let (path, uri) = (path.to_str().unwrap(), uri(fixture));
        if succeeds("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", path, &uri]).is_none() {
            return;
        }
        succeeds("qemu-img", &["compare", "-f", "raw", "-F", "raw", path, &uri]);
        let commands = [
            "write -P 5 4k 8k",
            "read -P 5 4k 8k",
            "write -z 4k 4k",
            "write -z -u 8k 4k",
            "read -P 0 4k 8k",
            "write -f -P 7 1M 64k",
            "read -P 7 1M 64k",
            "discard 2M 1M",
            "discard 3M 1M",
            "discard 4M 1M",
            "write -P 9 0 4M",
            "read -P 9 0 4M",
            "flush",
            "aio_write -P 1 0 64k",
            "aio_write -P 2 64k 64k",
            "aio_write -z -u 128k 64k",
            "aio_flush",
            "read -P 1 0 64k",
            "read -P 2 64k 64k",
            "read -P 0 128k 64k",
        ];
        let arguments: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        if let Some(text) = succeeds("qemu-io", &[&["-f", "raw"], &arguments[..], &[&uri]].concat()) {
            assert!(!text.contains("Pattern verification failed"), "{place}: {text}");
        }
        for way in [&["-w"][..], &[], &["-w", "--flush-interval", "64"]] {
            let count = ["bench", "-f", "raw", "-c", "512", "-d", "32", "-s", "4096"];
            succeeds("qemu-img", &[&count[..], way, &[&uri]].concat());
        }
    });
}

#[test]
fn fio_verifies_what_it_writes_at_depth_32() {
    let fixture = serve(Device::ram(8 << 20).unwrap());
    let engines = run("fio", &["--enghelp"]);
    let has =
        |output: &Output| String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == "nbd");
    if !engines.is_some_and(|output| has(&output)) {
        return println!("skipped: fio without its nbd engine");
    }
    let target = format!("--uri={}", uri(&fixture));
    let job = ["--name=verify", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=8m"];
    let more =
        [&target, "--verify=crc32c", "--verify_fatal=1", "--randseed=1", "--thread", "--verify_state_save=0"];
    succeeds("fio", &[&job[..], &more].concat());
}
