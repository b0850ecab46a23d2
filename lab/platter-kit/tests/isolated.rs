//! Trials in processes of their own: crashes are findings with seed and plan, and the run goes on.

use platter_kit::{Device, Flushes, Isolation, Kit, Outcome, Summary};
use platter_sim::power::Lost;
use std::fs::File;

fn read(disk: &Device, sector: u64) -> Result<u8, String> {
    let mut block = [0; 512];
    disk.read_at(&mut block, sector * 512).map_err(|error| error.to_string())?;
    Ok(block[0])
}

/// A log of `n` blocks from block 1; block 0 has their number.
fn log(flushes: bool) -> impl Fn(&Device, &mut u8) -> Outcome {
    move |disk, stored| {
        for n in 1..=2u8 {
            disk.write_at(&[n; 512], u64::from(n) * 512)?;
            if flushes {
                disk.flush()?;
            }
            disk.write_at(&[n; 512], 0)?;
            disk.flush()?;
            *stored = n;
        }
        Ok(())
    }
}

/// A check that does this where a block is not what it should be.
fn check(otherwise: fn() -> Outcome) -> impl Fn(&Device, &u8) -> Outcome {
    move |disk, stored| {
        let count = read(disk, 0)?;
        let whole = (1..=count).all(|n| read(disk, n.into()) == Ok(n));
        if whole && count >= *stored { Ok(()) } else { otherwise() }
    }
}

/// Reads memory behind the end of the file that it maps, as engines do that map a file which was cut short.
fn bus_error() -> Outcome {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let file = tempfile::tempfile()?;
    File::set_len(&file, 0)?;
    // SAFETY: a new mapping; the read of its memory ends the process.
    let first = unsafe {
        let page = mmap(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, &file, 0)?;
        page.cast::<u8>().read_volatile()
    };
    Err(format!("{first} was read").into())
}

/// The smallest cut of the log without flushes.
const SMALLEST: &str = "io=1 lost=0/0:1+1";

#[test]
fn a_bus_error_in_a_check_is_a_finding() {
    let kit = Kit::new(7).isolated(Isolation::test("a_bus_error_in_a_check_is_a_finding"));
    let failure = kit.run(log(false), check(bus_error)).unwrap_err();
    assert_eq!(failure.plan.to_string(), SMALLEST, "{failure}");
    assert!(failure.wrong.starts_with("the check ended its process: signal: 7 (SIGBUS)"), "{failure}");
    let said = failure.to_string();
    assert!(said.contains("Kit::new(7)") && said.contains(SMALLEST), "{said}");
}

#[test]
fn an_abort_in_a_check_is_seen_again_by_its_plan() {
    let kit = Kit::new(1).isolated(Isolation::test("an_abort_in_a_check_is_seen_again_by_its_plan"));
    let plan = SMALLEST.parse().unwrap();
    let wrong = kit.replay(&plan, log(false), check(|| std::process::abort())).unwrap_err();
    assert!(wrong.contains("SIGABRT"), "{wrong}");
}

#[test]
fn a_check_that_ends_its_process_is_a_finding() {
    let kit = Kit::new(1).isolated(Isolation::test("a_check_that_ends_its_process_is_a_finding"));
    let failure = kit.run(log(false), check(|| std::process::exit(3))).unwrap_err();
    assert!(failure.wrong.ends_with("exit status: 3"), "{failure}");
}

#[test]
fn an_engine_that_crashes_after_the_cut_is_a_finding() {
    let kit = Kit::new(1).isolated(Isolation::test("an_engine_that_crashes_after_the_cut_is_a_finding"));
    let engine = |disk: &Device, _: &mut u8| -> Outcome {
        disk.write_at(&[1; 512], 0)?;
        if disk.flush().is_err() {
            std::process::abort();
        }
        Ok(())
    };
    let failure = kit.run(engine, |_, _| Ok(())).unwrap_err();
    assert_eq!((failure.plan.io, &failure.plan.lost), (1, &Lost::new()), "{failure}");
    assert!(failure.wrong.starts_with("the engine ended its process: signal: 6"), "{failure}");
}

#[test]
fn an_engine_that_crashes_without_a_cut_is_told_so() {
    let kit = Kit::new(1).isolated(Isolation::test("an_engine_that_crashes_without_a_cut_is_told_so"));
    let failure = kit.run(|_, _: &mut u8| std::process::abort(), |_, _| Ok(())).unwrap_err();
    assert!(failure.wrong.contains("although nothing was wrong"), "{failure}");
}

#[test]
fn errors_of_a_check_are_those_of_a_run_in_one_process() {
    let kit = Kit::new(1);
    let alone = kit.clone().isolated(Isolation::test("errors_of_a_check_are_those_of_a_run_in_one_process"));
    let lost = || Err("it is lost".into());
    let found = alone.run(log(false), check(lost));
    assert_eq!(found, kit.run(log(false), check(lost)));
    assert_eq!(found.unwrap_err().plan.to_string(), SMALLEST);
}

#[test]
fn a_run_without_findings_is_that_of_one_process() {
    // The check writes, so that power is cut in it too.
    let repairs = |disk: &Device, stored: &u8| -> Outcome {
        check(|| Err("it is lost".into()))(disk, stored)?;
        disk.write_at(&[9; 512], 8 * 512)?;
        Ok(disk.flush()?)
    };
    let kit = Kit::new(1).tries(3);
    let alone = kit.clone().isolated(Isolation::test("a_run_without_findings_is_that_of_one_process"));
    let summary = alone.run(log(true), repairs).unwrap();
    assert!(summary.recoveries > 0 && summary.differing == 0, "{summary:?}");
    assert_eq!(kit.run(log(true), repairs), Ok(summary));
}

#[test]
fn dropped_flushes_are_those_of_one_process() {
    let kit = Kit::new(1);
    let alone = kit.clone().isolated(Isolation::test("dropped_flushes_are_those_of_one_process"));
    let lost = || Err("it is lost".into());
    let each = alone.drop_each_flush(log(true), check(lost)).unwrap();
    assert!(each.len() == 4 && each.iter().all(|flush| flush.found.is_some()), "{each:?}");
    assert_eq!(kit.drop_each_flush(log(true), check(lost)).unwrap(), each);
}

#[test]
fn dropping_everything_reaches_the_process() {
    let kit = Kit::new(1).flushes(Flushes::DropAll);
    let alone = kit.isolated(Isolation::test("dropping_everything_reaches_the_process"));
    assert!(alone.run(log(true), check(|| Err("it is lost".into()))).is_err());
}

#[test]
fn a_run_that_the_process_does_not_come_to_is_named() {
    let alone = Kit::new(1).isolated(Isolation::test("no_test_of_this_name"));
    let failure = alone.run(log(true), check(|| Ok(()))).unwrap_err();
    assert!(
        failure.wrong.contains("no_test_of_this_name") && failure.wrong.contains("its name"),
        "{failure}"
    );
}

#[test]
fn another_run_in_the_process_of_a_trial_does_nothing() {
    let other = Kit::new(2).isolated(Isolation::test("of another name"));
    if std::env::var_os("PLATTER_KIT_TRIAL").is_some() {
        assert_eq!(other.run(log(false), check(|| std::process::abort())), Ok(Summary::default()));
    }
    let alone = Kit::new(1).isolated(Isolation::test("another_run_in_the_process_of_a_trial_does_nothing"));
    assert_eq!(alone.tries(1).run(log(true), check(|| Ok(()))).map(|summary| summary.cuts), Ok(10));
}
