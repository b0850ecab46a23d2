//! Parallel sequential reads, on memory.

use platter_bench::ladder::{self, Ladder};
use platter_bench::parallel_read::{Disk, Mode, Opened, Options, ParallelReadError, RAW_RUNG, Report, run};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

const SIZE: u64 = 1 << 20;

/// A disk in memory that notes how it was opened.
fn disk<'a>(name: &str, size: u64, opened: &'a Mutex<Vec<Mode>>) -> Disk<'a> {
    Disk::new(name, move |mode| {
        opened.lock().unwrap().push(mode);
        if mode != Mode::Raw {
            return Ok(Opened::Device(Device::ram(size)?));
        }
        let rung = ladder::find(RAW_RUNG).unwrap();
        let make = |settings, elevator| Device::ram_with(size, settings, elevator);
        Ok(Opened::Ladder(Ladder::open(rung.switches, DiskSettings::default(), make)?))
    })
}

fn options() -> Options {
    Options { block: 64 << 10, repeat: 2, ..Options::default() }
}

fn read(disks: &[Disk<'_>], options: &Options) -> Result<Report, ParallelReadError> {
    run(disks, options, &AtomicBool::new(false), &mut |_| {})
}

#[test]
fn every_device_is_read_once_in_each_round_and_opened_anew() {
    let opened = Mutex::new(Vec::new());
    let disks = [disk("a", SIZE, &opened), disk("b", SIZE / 2, &opened), disk("c", SIZE, &opened)];
    let report = read(&disks, &options()).unwrap();
    assert_eq!((report.on, report.interrupted), (vec!["a".to_owned(), "b".into(), "c".into()], false));
    assert_eq!(report.results.iter().map(|runs| runs.mode).collect::<Vec<_>>(), Mode::ALL);
    for runs in &report.results {
        assert_eq!(
            (runs.rounds.len(), runs.block),
            (2, if runs.mode == Mode::Normal { 512 } else { 64 << 10 })
        );
        for round in &runs.rounds {
            assert_eq!(round.bytes, SIZE * 5 / 2);
            assert!(
                round.seconds > 0.0 && round.finish_spread_s >= 0.0 && round.finish_spread_s <= round.seconds
            );
            assert!(round.cpu_idle_pct.is_none_or(|idle| (0.0..=100.0).contains(&idle)));
        }
    }
    // The order of the modes rotates.
    let [normal, direct, raw] = Mode::ALL.map(|mode| [mode; 3]);
    assert_eq!(*opened.lock().unwrap(), [normal, direct, raw, direct, raw, normal].concat());
}

#[test]
fn only_as_much_is_read_as_was_asked_for() {
    let opened = Mutex::new(Vec::new());
    let part = Options { size: Some(200_000), modes: vec![Mode::Direct], ..options() };
    let report = read(&[disk("a", SIZE, &opened)], &part).unwrap();
    assert_eq!(report.results[0].rounds[0].bytes, 3 * (64 << 10));
    let one = serde_json::to_value(&report.results[0]).unwrap();
    assert_eq!(
        (&one["mode"], &one["block_bytes"], &one["rounds"][1]["bytes"]),
        (&"direct".into(), &65536.into(), &196608.into())
    );
    assert!(one["mib_per_s_min"].as_f64() <= one["mib_per_s"].as_f64());
    assert!(one["mib_per_s"].as_f64() <= one["mib_per_s_max"].as_f64());
}

#[test]
fn what_makes_no_sense_is_named() {
    let opened = Mutex::new(Vec::new());
    let says = |options: Options, words: &[&str]| {
        let error = read(&[disk("a", SIZE, &opened)], &options).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    };
    says(Options { block: 100, ..options() }, &["--block 100", "multiples of 512"]);
    says(Options { normal_block: 0, ..options() }, &["--normal-block 0", "multiples of 512"]);
    says(Options { repeat: 0, ..options() }, &["--repeat 0", "at least 1"]);
    says(Options { modes: vec![], ..options() }, &["normal, direct, raw"]);
    says(Options { size: Some(2 << 20), ..options() }, &["--size 2M", "up to 1M", "ram"]);
    says(Options { block: 4 << 20, ..options() }, &["1 MiB of ram", "blocks of 4M", "--block"]);
    let none = read(&[], &options()).unwrap_err().to_string();
    assert!(none.contains("no device"), "{none}");
    let ideal = Ideal { size: SIZE, latency: Span(1), depth: 1, write_cache: false };
    let simulated = Disk::new("sim", |_| {
        let disk = SimDisk::new(&World::new(1), ideal.into(), None);
        Ok(Opened::Device(Device::from_disk(disk.attach("ideal"), DiskSettings::default(), None)?))
    });
    let error = read(&[simulated], &options()).unwrap_err().to_string();
    assert!(error.contains("ideal is simulated"), "{error}");
}

#[test]
fn an_interruption_before_the_first_result_is_an_error() {
    let opened = Mutex::new(Vec::new());
    let stopped = run(&[disk("a", SIZE, &opened)], &options(), &AtomicBool::new(true), &mut |_| {});
    assert!(matches!(stopped, Err(ParallelReadError::Interrupted)));
    // In the second round: earlier measurements are reported.
    let cancel = AtomicBool::new(false);
    let report = run(&[disk("a", SIZE, &opened)], &options(), &cancel, &mut |state| {
        cancel.store(state.round.0 == 2, std::sync::atomic::Ordering::Relaxed);
    });
    let report = report.unwrap();
    assert!(report.interrupted && report.results.iter().all(|runs| runs.rounds.len() == 1));
    assert!(report.to_text(false).contains("interrupted"));
}
