//! Snapshots: what each view shows, when the store is full, which stores are refused, merging.

use platter_block::backend::Backend;
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_stack::snapshot::{Create, Settings, Snapshot};
use platter_stack::{LayerError, by_name};
use std::sync::Arc;

const CHUNK: u64 = 4096;
const SIZE: u64 = 64 * CHUNK;

/// Room for this many chunks, and the header and table of a snapshot.
const fn store(chunks: u64) -> u64 {
    8192 + 4096 + chunks * CHUNK
}

fn ram(size: u64) -> Device {
    Device::ram(size).unwrap()
}

fn below(device: &Device) -> Arc<dyn Backend> {
    Arc::clone(device.backend())
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.chunk = CHUNK;
    settings
}

fn open(origin: &Device, store: &Device) -> Result<(Device, Device), LayerError> {
    let both = Snapshot::open(below(origin), below(store), settings())?;
    Ok((Device::new(both.origin), Device::new(both.view)))
}

/// What each block of 512 bytes begins with.
fn fill(device: &Device, salt: u64) {
    let mut data = vec![0; device.size() as usize];
    for (at, block) in (0u64..).zip(data.chunks_exact_mut(512)) {
        block[..8].copy_from_slice(&(at ^ salt << 32).to_le_bytes());
    }
    device.write_at(&data, 0).unwrap();
}

fn contents(device: &Device) -> Vec<u8> {
    let mut data = vec![0; device.size() as usize];
    device.read_at(&mut data, 0).unwrap();
    data
}

fn refusal(result: Result<(Device, Device), LayerError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn each_view_has_its_own_contents() {
    let (origin, stored) = (ram(SIZE), ram(store(64)));
    fill(&origin, 1);
    let old = contents(&origin);
    let (live, view) = open(&origin, &stored).unwrap();
    assert_eq!((live.size(), view.size()), (SIZE, SIZE));
    // Within a chunk, across chunks, whole chunks; then the same on the other side.
    let changes =
        [(512u64, 1024usize), (3 * CHUNK - 512, 1024), (10 * CHUNK, 3 * CHUNK as usize), (20 * CHUNK, 512)];
    let (mut expected_live, mut expected_view) = (old.clone(), old.clone());
    for (at, len) in changes {
        live.write_at(&vec![7; len], at).unwrap();
        expected_live[at as usize..][..len].fill(7);
        assert!(contents(&view) == expected_view, "after a change of the origin at {at}");
        let at = at + 30 * CHUNK;
        view.write_at(&vec![9; len], at).unwrap();
        expected_view[at as usize..][..len].fill(9);
        // A chunk that the origin has changed.
        view.write_at(&vec![5; 512], 10 * CHUNK).unwrap();
        expected_view[10 * CHUNK as usize..][..512].fill(5);
        assert!(contents(&live) == expected_live && contents(&view) == expected_view, "{at}");
        // The origin's contents where only the snapshot was changed.
        live.write_at(&vec![3; len], at).unwrap();
        expected_live[at as usize..][..len].fill(3);
        assert!(contents(&live) == expected_live && contents(&view) == expected_view, "{at}");
    }
    live.write_zeroes(40 * CHUNK, CHUNK + 512).unwrap();
    expected_live[40 * CHUNK as usize..][..CHUNK as usize + 512].fill(0);
    view.write_zeroes(50 * CHUNK + 512, CHUNK).unwrap();
    expected_view[50 * CHUNK as usize + 512..][..CHUNK as usize].fill(0);
    live.discard(60 * CHUNK, CHUNK).unwrap();
    assert!(contents(&view) == expected_view);
    live.write_at(&vec![2; CHUNK as usize], 60 * CHUNK).unwrap();
    expected_live[60 * CHUNK as usize..][..CHUNK as usize].fill(2);
    assert!(contents(&live) == expected_live && contents(&view) == expected_view);
    view.flush().unwrap();
    drop((live, view));
    assert!(contents(&origin) == expected_live, "the origin is a plain device");
    let (live, view) = open(&origin, &stored).unwrap();
    assert!(contents(&live) == expected_live && contents(&view) == expected_view, "opened again");
}

/// Opening a snapshot reads parts of the origin, which makes these parts of memory data: the chunks looked at here are
/// others. Memory gives pages back in pieces of 64 KiB.
#[test]
fn holes_of_the_origin_stay_data_of_the_snapshot() {
    const CHUNK: u64 = 64 << 10;
    let open = |store: u64| {
        let (origin, stored) = (ram(16 << 20), ram(8192 + 4096 + store * CHUNK));
        origin.write_at(&[1; CHUNK as usize], 4 * CHUNK).unwrap();
        let mut settings = Settings::default();
        settings.chunk = CHUNK;
        let both = Snapshot::open(below(&origin), below(&stored), settings).unwrap();
        (Device::new(both.origin), Device::new(both.view))
    };
    let is_hole = |device: &Device, chunk: u64| {
        let extent = device.backend().allocation(chunk * CHUNK, CHUNK).unwrap();
        assert_eq!((extent.pos, extent.len), (chunk * CHUNK, CHUNK));
        extent.is_hole()
    };
    let (live, view) = open(8);
    assert!(is_hole(&live, 3) && is_hole(&view, 3) && !is_hole(&live, 4) && !is_hole(&view, 4));
    live.discard(4 * CHUNK, CHUNK).unwrap();
    assert!(is_hole(&live, 4) && !is_hole(&view, 4), "the store holds the old contents");
    view.write_at(&[2; CHUNK as usize], 3 * CHUNK).unwrap();
    assert!(is_hole(&live, 3) && !is_hole(&view, 3), "the store holds the new contents");
    // A snapshot that became invalid cannot be read, so nothing of it is a hole.
    let (live, view) = open(1);
    (10..12).for_each(|chunk| live.write_at(&[1; CHUNK as usize], chunk * CHUNK).unwrap());
    assert!(view.read_at(&mut [0; 512], 20 * CHUNK).is_err());
    assert!(is_hole(&live, 20) && !is_hole(&view, 20));
}

#[test]
fn a_full_store_costs_the_snapshot_and_never_the_origin() {
    let (origin, stored) = (ram(SIZE), ram(store(8)));
    fill(&origin, 1);
    let (live, view) = open(&origin, &stored).unwrap();
    for chunk in 0..8 {
        live.write_at(&[1; 512], chunk * CHUNK).unwrap();
    }
    assert_eq!(contents(&view).len() as u64, SIZE);
    // A change of the snapshot fails for itself.
    let error = view.write_at(&[2; 512], 20 * CHUNK).unwrap_err();
    assert_eq!(error.fault.kind, Kind::NoSpace, "{error}");
    assert!(error.to_string().contains("the store of the snapshot is full"), "{error}");
    view.write_at(&[2; 512], 0).unwrap();
    // A change of the origin goes on.
    live.write_at(&[1; 512], 30 * CHUNK).unwrap();
    live.flush().unwrap();
    let error = view.read_at(&mut [0; 512], 0).unwrap_err();
    assert!(error.to_string().contains("the snapshot is invalid: its store is full"), "{error}");
    assert!(view.flush().is_err() && view.write_at(&[2; 512], 0).is_err());
    let mut data = [0; 512];
    live.read_at(&mut data, 30 * CHUNK).unwrap();
    assert_eq!(data, [1; 512]);
    drop((live, view));
    // The store says so.
    let row = |name: &str, create: i64| {
        let values = [("chunk", CHUNK as i64), ("create", create)];
        by_name(name).unwrap().make(&values, vec![below(&origin), below(&stored)])
    };
    let error = row("snapshot", 0).err().unwrap().to_string();
    assert!(error.contains("the snapshot is invalid") && error.contains("create=always"), "{error}");
    let live = Device::new(row("snapshot-origin", 0).unwrap());
    live.write_at(&[4; 512], 40 * CHUNK).unwrap();
    drop(live);
    let view = Device::new(row("snapshot", 1).unwrap());
    assert!(contents(&view) == contents(&origin), "a new one");
}

#[test]
fn stores_that_do_not_fit_are_refused() {
    let (origin, stored) = (ram(SIZE), ram(store(8)));
    fill(&origin, 1);
    drop(open(&origin, &stored).unwrap());
    let other = ram(SIZE);
    fill(&other, 2);
    let text = refusal(open(&other, &stored));
    assert!(
        text.contains("the store is of another origin") && text.contains("it differs at byte 0"),
        "{text}"
    );
    let larger = ram(SIZE * 2);
    let text = refusal(open(&larger, &stored));
    assert!(text.contains("of another origin: that one has 262144 bytes, this one 524288"), "{text}");
    let foreign = ram(store(8));
    foreign.write_at(&[1; 512], 1024).unwrap();
    let text = refusal(open(&origin, &foreign));
    assert!(text.contains("the store holds other data; to overwrite it, give create=always"), "{text}");
    for size in [4096, 8192 + 4096] {
        let text = refusal(open(&origin, &ram(size)));
        assert!(text.contains("bytes; it takes") || text.contains("too few for a chunk"), "{text}");
    }
    let text = refusal(open(&origin, &origin));
    assert!(text.contains("on the same disk"), "{text}");
    let mut never = settings();
    never.create = Create::Never;
    let error = Snapshot::open(below(&origin), below(&ram(store(8))), never).err().unwrap();
    assert!(error.to_string().contains("the store holds no snapshot"), "{error}");
    let mut odd = settings();
    odd.chunk = 5000;
    let error = Snapshot::open(below(&origin), below(&ram(store(8))), odd).err().unwrap();
    assert!(error.to_string().contains("chunk=5000 is not a power of two from 4096"), "{error}");
    // The origin was changed without its snapshot.
    origin.write_at(&[9; 512], 0).unwrap();
    assert!(refusal(open(&origin, &stored)).contains("it differs at byte 0"));
}

/// A header or a table that is damaged is never taken for another one.
#[test]
fn damage_is_found() {
    let (origin, stored) = (ram(SIZE), ram(store(64)));
    let (live, view) = open(&origin, &stored).unwrap();
    live.write_at(&vec![1; SIZE as usize], 0).unwrap();
    drop((live, view));
    let sound = contents(&stored);
    let with = |changes: &[usize]| {
        let mut image = sound.clone();
        changes.iter().for_each(|&at| image[at] ^= 4);
        stored.write_at(&image, 0).unwrap();
        open(&origin, &stored)
    };
    // One copy of the header is enough.
    for at in [0, 9, 100, 4096, 4096 + 50] {
        assert!(contents(&with(&[at]).unwrap().1).iter().all(|&byte| byte == 0), "{at}");
    }
    assert!(refusal(with(&[20, 4096 + 20])).contains("the store holds other data"));
    for at in [8192, 8192 + 480, 8192 + 500, 8192 + 505, 8192 + 510, 8704, 8192 + 4095] {
        assert!(refusal(with(&[at])).contains("of its table is damaged"), "{at}");
    }
}

#[test]
fn a_merge_makes_the_origin_what_the_snapshot_is() {
    let (origin, stored) = (ram(SIZE), ram(store(64)));
    fill(&origin, 1);
    let (live, view) = open(&origin, &stored).unwrap();
    live.write_at(&vec![1; 5 * CHUNK as usize], 512).unwrap();
    view.write_at(&vec![2; 5 * CHUNK as usize], 3 * CHUNK).unwrap();
    view.write_at(&[3; 512], 40 * CHUNK).unwrap();
    let mut expected = contents(&view);
    drop((live, view));
    let merge = Snapshot::merge(below(&origin), below(&stored), false, 0).unwrap();
    let view = Device::new(Arc::clone(&merge.view));
    // It can be used at once, also while it is merged.
    view.write_at(&[4; 1024], 4 * CHUNK - 512).unwrap();
    expected[4 * CHUNK as usize - 512..][..1024].fill(4);
    view.write_at(&[5; 1024], 50 * CHUNK).unwrap();
    expected[50 * CHUNK as usize..][..1024].fill(5);
    while merge.progress().result.is_none() {
        assert!(contents(&view) == expected);
    }
    let progress = merge.progress();
    assert_eq!((progress.result, progress.done), (Some(Ok(())), progress.total));
    assert!(contents(&view) == expected);
    drop((view, merge));
    assert!(contents(&origin) == expected);
    let text = refusal(open(&origin, &stored));
    assert!(text.contains("the snapshot was merged into its origin"), "{text}");
}

/// The paused merge resumes where it was when it is opened again, and the snapshot is not opened meanwhile.
#[test]
fn a_merge_that_was_interrupted_continues() {
    let (origin, stored) = (ram(4 << 20), ram(6 << 20));
    let (live, view) = open(&origin, &stored).unwrap();
    view.write_at(&vec![6; 4 << 20], 0).unwrap();
    drop((live, view));
    let merge = Snapshot::merge(below(&origin), below(&stored), false, 0).unwrap();
    merge.pause(true);
    let view = Device::new(Arc::clone(&merge.view));
    assert_eq!(contents(&view), vec![6; 4 << 20]);
    assert!(merge.progress().is_paused && merge.progress().result.is_none());
    drop((view, merge));
    assert!(contents(&origin).contains(&0), "not all is merged");
    let text = refusal(open(&origin, &stored));
    assert!(text.contains("is being merged; continue with snapshot-merge"), "{text}");
    let row = by_name("snapshot-merge").unwrap();
    let view = Device::new(row.make(&[], vec![below(&origin), below(&stored)]).unwrap());
    while view.facts().iter().all(|(name, value)| *name != "snapshot" || value != "merged") {
        assert_eq!(contents(&view), vec![6; 4 << 20]);
    }
    drop(view);
    assert_eq!(contents(&origin), vec![6; 4 << 20]);
}
