use super::*;
use crate::sys::testing::skip;

const MIB: u64 = 1 << 20;

fn spec(dir: &Path, count: usize, size: u64) -> TempSpec<'_> {
    TempSpec { dir: Some(dir), count, size, seed: 42, cancel: None }
}

fn names_in(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect()
}

/// A directory on a disk; `None`, after printing why, if there is none.
fn dir_on_disk(test: &str) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    match suits(dir.path(), 64 * MIB) {
        Ok(_) => Some(dir),
        Err(e) => {
            skip(test, &e.to_string());
            None
        }
    }
}

#[test]
fn files_hold_their_pattern_and_have_no_name() {
    let Some(dir) = dir_on_disk("files_hold_their_pattern") else { return };
    for size in [1, 4096, 5 * MIB, 4 * MIB + 777] {
        let mut seen = Vec::new();
        let files = TempFiles::create(&spec(dir.path(), 2, size), &mut |p| seen.push(p)).unwrap();
        assert!(seen.is_sorted_by_key(|p| p.done));
        let probe = crate::sys::Probe::of_path(&files.paths()[0]).unwrap();
        assert_eq!(files.filesystem(), probe.filesystem.unwrap().name);
        assert_eq!(seen.last(), Some(&Progress { done: 2 * size, total: 2 * size }));
        assert!(files.is_nameless() && names_in(dir.path()).is_empty());
        for (disk, path) in files.paths().iter().enumerate() {
            let mut expected = vec![0; size as usize];
            Pattern::new(42, disk as u64).fill(0, &mut expected);
            assert!(fs::read(path).unwrap() == expected, "file {disk} of {size} bytes");
            OpenOptions::read_write().open(path).unwrap();
        }
        assert_eq!(fs::metadata(&files.paths_for_others()[1]).unwrap().len(), size);
    }
}

#[test]
fn every_way_of_naming_leaves_nothing() {
    let Some(dir) = dir_on_disk("every_way_of_naming") else { return };
    for (naming, names) in [(Naming::Nameless, 0), (Naming::Unlinked, 0), (Naming::Named, 1)] {
        let Some(file) = make_as(dir.path(), naming).unwrap() else {
            skip("every_way_of_naming", &format!("{naming:?} does not work here"));
            continue;
        };
        assert_eq!(names_in(dir.path()).len(), names, "{naming:?}");
        fill(&file, 10_000, Pattern::new(1, 1), &mut |_| Ok(())).unwrap();
        assert_eq!(fs::read(file.path()).unwrap().len(), 10_000);
        drop(file);
        assert!(names_in(dir.path()).is_empty(), "{naming:?}");
    }
}

#[test]
fn cancelling_stops_between_chunks() {
    let Some(dir) = dir_on_disk("cancelling_stops") else { return };
    let cancel = AtomicBool::new(false);
    let mut calls = 0;
    let spec = TempSpec { cancel: Some(&cancel), ..spec(dir.path(), 2, 3 * CHUNK) };
    let result = TempFiles::create(&spec, &mut |p| {
        calls += 1;
        cancel.store(p.done >= 2 * CHUNK, Ordering::Relaxed);
    });
    let e = result.unwrap_err();
    assert_eq!((e.errno, calls, e.path.as_path()), (Some(libc::ECANCELED), 2, dir.path()));
    assert!(names_in(dir.path()).is_empty());
}

#[test]
fn memory_file_systems_are_refused_by_name() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return skip("memory_file_systems_are_refused", "no /dev/shm");
    };
    let e = TempFiles::create(&spec(dir.path(), 1, 4096), &mut |_| {}).unwrap_err();
    assert!(e.message.contains("tmpfs"), "{e}");
}

#[test]
fn too_little_space_is_found_before_writing() {
    let Some(dir) = dir_on_disk("too_little_space") else { return };
    let e = TempFiles::create(&spec(dir.path(), 4, 1 << 58), &mut |_| panic!("wrote")).unwrap_err();
    assert_eq!(e.errno, Some(libc::ENOSPC));
    assert!(e.message.contains(&(1_u64 << 60).to_string()), "{e}");
}

#[test]
fn senseless_sizes_and_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (count, size) in [(0, 4096), (1, 0), (1 << 20, 1 << 60)] {
        let e = TempFiles::create(&spec(dir.path(), count, size), &mut |_| {}).unwrap_err();
        assert!(e.message.contains(&size.to_string()), "{e}");
    }
    let missing = dir.path().join("missing");
    let e = TempFiles::create(&spec(&missing, 1, 4096), &mut |_| {}).unwrap_err();
    assert_eq!((e.errno, e.path), (Some(libc::ENOENT), missing));
}

#[test]
fn the_first_directory_that_suits_is_taken_and_all_refusals_are_told() {
    let Some(dir) = dir_on_disk("the_first_directory_that_suits") else { return };
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let good = dir.path().to_path_buf();
    assert_eq!(choose(&[a.clone(), good.clone(), b.clone()], 4096).unwrap().0, good);
    let text = choose(&[a.clone(), b.clone()], 4096).unwrap_err().to_string();
    assert!(text.contains(a.to_str().unwrap()) && text.contains(b.to_str().unwrap()), "{text}");
    assert!(choose(&[], 4096).is_err());
}
