use super::*;
use std::cell::Cell;

fn read(disk: &Device, sector: u64) -> Result<u8, String> {
    let mut block = [0; 512];
    disk.read_at(&mut block, sector * 512).map_err(|error| error.to_string())?;
    Ok(block[0])
}

/// A log of `n` blocks from block 1; block 0 has their number.
fn log(flushes: bool) -> impl Fn(&Device, &mut u8) -> Outcome {
    move |disk, stored| {
        for n in 1..=6u8 {
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

fn check_log(disk: &Device, stored: &u8) -> Outcome {
    let count = read(disk, 0)?;
    if count < *stored {
        return Err(format!("{stored} were stored, {count} are there").into());
    }
    (1..=count).try_for_each(|n| match read(disk, n.into())? == n {
        true => Ok(()),
        false => Err(format!("block {n} is lost").into()),
    })
}

#[test]
fn a_right_engine_passes_whatever_is_between_it_and_the_disk() {
    let rows = platter_elevators::TABLE.iter().map(|row| Some(row.name));
    for name in std::iter::once(None).chain(rows) {
        let open = move |disks: &[SimDisk]| {
            let elevator = name.and_then(platter_elevators::by_name).map(|row| (row.make)());
            Device::from_disk(disks[0].attach("log"), DiskSettings::default(), elevator)
        };
        let summary = Kit::new(1).open(open).run(log(true), check_log).unwrap();
        assert_eq!(summary, Summary { ios: 24, cuts: 1 + 25 * 6, ..Summary::default() }, "{name:?}");
    }
}

#[test]
fn a_log_without_a_flush_is_found_and_shrunk() {
    for (seed, cuts) in [(1, Cuts::Every), (2, Cuts::Every), (3, Cuts::Random(100))] {
        let kit = Kit::new(seed).cuts(cuts);
        let failure = kit.run(log(false), check_log).unwrap_err();
        // The first block 0 is in flight or just written, and survives the block that it speaks of.
        assert_eq!(failure.plan.to_string(), "io=1 lost=0/0:1+1", "{failure}");
        assert_eq!(failure.wrong, "block 1 is lost");
        let said = failure.to_string();
        assert!(said.contains(&format!("Kit::new({seed})")) && said.contains("io=1 lost=0/0:1+1"), "{said}");
        let plan: Plan = failure.plan.to_string().parse().unwrap();
        assert_eq!(kit.replay(&plan, log(false), check_log), Err(failure.wrong));
        assert_eq!(kit.replay(&plan, log(true), check_log), Ok(()));
    }
}

#[test]
fn a_promise_before_the_flush_is_found_by_a_cut_after_the_end() {
    let engine = |disk: &Device, stored: &mut u8| -> Outcome {
        *stored = 1;
        Ok(disk.write_at(&[1; 512], 0)?)
    };
    let failure = Kit::new(1).run(engine, |disk, stored| match read(disk, 0)? == *stored {
        true => Ok(()),
        false => Err("it is lost".into()),
    });
    // Already the first I/O in flight is enough.
    assert_eq!(failure.unwrap_err().plan.to_string(), "io=0 lost=0/0:0+1");
}

#[test]
fn torn_writes_are_found_and_shrunk_to_one_sector() {
    let engine = |disk: &Device, stored: &mut u8| -> Outcome {
        for version in 1..=2u8 {
            disk.write_at(&[version; 4096], 0)?;
            disk.flush()?;
            *stored = version;
        }
        Ok(())
    };
    let whole = |disk: &Device, _: &u8| -> Outcome {
        let first = read(disk, 0)?;
        (1..8).try_for_each(|at| if read(disk, at)? == first { Ok(()) } else { Err("torn".into()) })
    };
    let failure = Kit::new(1).tries(20).run(engine, whole).unwrap_err();
    assert_eq!((failure.plan.io, failure.plan.lost.iter().count()), (0, 1), "{failure}");
}

#[test]
fn two_disks_lose_power_together() {
    let disk = Ideal { size: 1 << 20, latency: Span::from_micros(10), depth: 4, write_cache: true };
    let counted = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let opened = Arc::clone(&counted);
    let kit = Kit::new(1).disks(disk, 2).open(move |disks| {
        opened.fetch_add(disks.len() as u64, std::sync::atomic::Ordering::Relaxed);
        Device::from_disk(disks[1].attach("second"), DiskSettings::default(), None)
    });
    let failure = kit.run(log(false), check_log).unwrap_err();
    assert_eq!(failure.plan.to_string(), "io=1 lost=1/0:1+1");
    assert!(counted.load(std::sync::atomic::Ordering::Relaxed) > 4);
}

#[test]
fn an_engine_that_fails_by_itself_is_told_so() {
    let engine = |disk: &Device, _: &mut ()| Ok(disk.write_at(&[1; 512], 1 << 40)?);
    let failure = Kit::new(1).run(engine, |_, ()| Ok(())).unwrap_err();
    assert!(
        failure.wrong.contains("nothing was wrong") && failure.wrong.contains("past the end"),
        "{failure}"
    );
    let failure = Kit::new(1).run(log(true), |_, _: &u8| Err("never good".into())).unwrap_err();
    assert_eq!((failure.plan.io, failure.cuts), (24, 1));
}

#[test]
fn the_same_seed_tries_the_same_and_another_one_does_not() {
    let seen = |seed| {
        let sum = Cell::new(0u64);
        let kit = Kit::new(seed).cuts(Cuts::Random(20));
        kit.run(log(true), |disk, stored: &u8| {
            let found = u64::from(read(disk, 6)?) * 7 + u64::from(*stored);
            sum.set(sum.get().rotate_left(5) ^ found);
            Ok(())
        })
        .unwrap();
        sum.get()
    };
    assert_eq!(seen(1), seen(1));
    assert_ne!(seen(1), seen(2));
}

#[test]
fn plans_are_read_and_what_is_none_is_refused() {
    assert_eq!("io=3".parse::<Plan>(), Ok(Plan { io: 3, ..Plan::default() }));
    assert_eq!("io=3 lost=".parse::<Plan>(), Ok(Plan { io: 3, ..Plan::default() }));
    for wrong in ["", "3", "io=x lost=", "io=3 0/1:2+3", "io=3 lost=1"] {
        assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
    }
}

#[test]
fn each_dropped_flush_of_a_log_is_found_but_the_ones_that_nothing_depends_on() {
    let engine = |disk: &Device, stored: &mut u8| -> Outcome {
        disk.flush()?;
        log(true)(disk, stored)?;
        Ok(disk.flush()?)
    };
    let each = Kit::new(1).drop_each_flush(engine, check_log).unwrap();
    let missed: Vec<u64> = each.iter().filter(|flush| flush.found.is_none()).map(|flush| flush.nth).collect();
    assert_eq!((each.len(), missed), (14, vec![0, 13]), "the first and the last one have nothing to write");
    assert!(each.iter().all(|flush| (flush.writes == 0) == flush.found.is_none() && flush.cuts > 0));
    let second = each[2].found.as_ref().unwrap();
    assert_eq!((each[2].io, second.wrong.as_str()), (4, "1 were stored, 0 are there"));
    let kit = Kit::new(1).flushes(Flushes::DropOne { disk: 0, nth: 2 });
    assert_eq!(kit.replay(&second.plan, engine, check_log), Err(second.wrong.clone()));
    assert_eq!(Kit::new(1).replay(&second.plan, engine, check_log), Ok(()));
}

/// The log of [`log`] whose numbers are written with FUA in place of a flush; every second one, if `all` is not set.
fn log_of_fua(all: bool) -> impl Fn(&Device, &mut u8) -> Outcome {
    move |disk, stored| {
        for n in 1..=6u8 {
            disk.write_at(&[n; 512], u64::from(n) * 512)?;
            disk.flush()?;
            if all || n % 2 == 0 {
                disk.write_durable_at(&[n; 512], 0)?;
                *stored = n;
            } else {
                disk.write_at(&[n; 512], 0)?;
            }
        }
        Ok(())
    }
}

#[test]
fn each_fua_is_dropped_like_a_flush() {
    let each = Kit::new(1).drop_each_flush(log_of_fua(true), check_log).unwrap();
    let fua: Vec<bool> = each.iter().map(|dropped| dropped.fua).collect();
    assert_eq!(fua, [false, true].repeat(6), "a flush and a write with FUA for each block");
    let second = &each[3];
    assert_eq!((second.nth, second.io, second.writes), (3, 5, 1));
    assert_eq!(second.found.as_ref().unwrap().wrong, "2 were stored, 1 are there");
    // The write itself is what the dropped one would have made durable, until the next flush does it.
    assert!(each.iter().all(|dropped| dropped.found.is_some()), "{each:?}");
    let kit = Kit::new(1).flushes(Flushes::DropOne { disk: 0, nth: 3 });
    let plan = &second.found.as_ref().unwrap().plan;
    assert!(kit.replay(plan, log_of_fua(true), check_log).is_err());
    assert_eq!(Kit::new(1).replay(plan, log_of_fua(true), check_log), Ok(()));
    let all = Kit::new(1).flushes(Flushes::DropAll);
    assert!(all.run(log_of_fua(false), check_log).is_err());
}

/// Block 0 is a record, and block 1 a hint that may be lost. The check is harsher on the hint than it should be.
#[test]
fn a_lost_record_is_not_shrunk_to_a_lost_hint() {
    let engine = |disk: &Device, stored: &mut u8| -> Outcome {
        for n in 1..=3u8 {
            disk.write_at(&[n; 512], 512)?;
            disk.write_at(&[n; 512], 0)?;
            // Missing: a flush.
            *stored = n;
        }
        Ok(())
    };
    let check = |disk: &Device, stored: &u8| -> Outcome {
        match (read(disk, 0)?, read(disk, 1)?) {
            (record, _) if record < *stored => {
                Err(format!("record {stored} is lost, {record} is there").into())
            }
            (record, hint) if hint < record => Err(format!("hint {hint} is not {record}").into()),
            _ => Ok(()),
        }
    };
    let kit = Kit::new(1);
    // In the first cut that fails the record is lost.
    let trial = |plan: &str| kit.replay(&plan.parse().unwrap(), engine, check);
    assert_eq!(trial("io=2 lost=0/1:0+1"), Err("record 1 is lost, 0 is there".into()));
    assert_eq!(trial("io=1 lost=0/0:1+1"), Err("hint 0 is not 1".into()), "fewer I/Os are enough for it");
    let found = |first: &str| {
        let first: Plan = first.parse().unwrap();
        let wrong = kit.replay(&first, engine, check).unwrap_err();
        let trial = |cut: &Cut| kit.trial(cut, &engine, &check);
        kit.shrink(first, wrong, 1, &trial)
    };
    let record = found("io=5 lost=0/1:0+1,0/2:1+1,0/3:0+1,0/4:1+1,0/5:0+1");
    assert_eq!(record.wrong, "record 1 is lost, 0 is there", "{record}");
    assert_eq!(record.plan.to_string(), "io=2 lost=0/1:0+1");
    assert_eq!(record.first.wrong, "record 2 is lost, 0 is there");
    let said = record.to_string();
    assert!(said.contains(&record.first.wrong) && said.contains(&record.first.plan.to_string()), "{said}");
    let hint = found("io=3 lost=0/2:1+1");
    assert_eq!((hint.wrong.as_str(), hint.plan.to_string()), ("hint 0 is not 1", "io=1 lost=0/0:1+1".into()));
}

#[test]
fn a_repair_that_a_second_cut_breaks_is_found() {
    // Block 0 says which of blocks 1 and 2 is valid; the check repairs by copying and forgets to flush.
    let engine = |disk: &Device, stored: &mut u8| -> Outcome {
        disk.write_at(&[7; 512], 512)?;
        disk.flush()?;
        disk.write_at(&[1; 512], 0)?;
        disk.flush()?;
        *stored = 7;
        Ok(())
    };
    let check = |flushes: bool| {
        move |disk: &Device, stored: &u8| -> Outcome {
            if read(disk, 0)? == 1 {
                disk.write_at(&[read(disk, 1)?; 512], 1024)?;
                if flushes {
                    disk.flush()?;
                }
                disk.write_at(&[2; 512], 0)?;
            }
            match (*stored, read(disk, 0)?) {
                (0, _) => Ok(()),
                (wanted, valid) if read(disk, valid.into())? == wanted => Ok(()),
                _ => Err("it is lost".into()),
            }
        }
    };
    let kit = Kit::new(1).tries(20);
    let failure = kit.run(engine, check(false)).unwrap_err();
    let again = failure.plan.recovery.clone().expect("only a second cut finds it");
    assert_eq!((failure.wrong.as_str(), again.lost.iter().count()), ("it is lost", 1), "{failure}");
    let plan: Plan = failure.plan.to_string().parse().unwrap();
    assert_eq!(
        (kit.replay(&plan, engine, check(false)), plan),
        (Err("it is lost".into()), failure.plan.clone())
    );
    assert!(failure.to_string().contains("of the recovery, 1 sectors lost"), "{failure}");
    let summary = kit.run(engine, check(true)).unwrap();
    assert!(summary.recoveries > 0, "{summary:?}");
    assert_eq!(kit.recovery_tries(0).run(engine, check(false)).map(|summary| summary.recoveries), Ok(0));
}

#[test]
fn trials_whose_io_differs_are_counted() {
    let count = Cell::new(0u8);
    let engine = |disk: &Device, _: &mut ()| -> Outcome {
        count.set(count.get().wrapping_add(1));
        disk.write_at(&[count.get(); 512], 0)?;
        Ok(disk.flush()?)
    };
    let summary = Kit::new(1).run(engine, |_, ()| Ok(())).unwrap();
    assert_eq!(summary.differing + 1, summary.cuts);
}

#[test]
fn a_check_that_panics_is_a_finding_and_an_engine_that_panics_after_the_cut_is_none() {
    let engine = |disk: &Device, _: &mut ()| -> Outcome {
        disk.write_at(&[1; 512], 0).unwrap();
        Ok(())
    };
    assert!(Kit::new(1).run(engine, |_, ()| Ok(())).is_ok());
    let failure = Kit::new(1).run(engine, |disk, ()| {
        assert_eq!(read(disk, 0)?, 1);
        Ok(())
    });
    assert!(failure.unwrap_err().wrong.starts_with("panicked: assertion"));
}

#[test]
fn the_finding_of_the_front_page_is_a_real_one() {
    let engine = |disk: &Device, history: &mut History<u8>| -> Outcome {
        for n in 1..=5 {
            history.begin(n);
            disk.write_at(&[n], 0)?;
            history.acknowledge();
        }
        Ok(())
    };
    let failure = Kit::new(1).run(engine, |disk, history| {
        let mut found = [0];
        disk.read_at(&mut found, 0)?;
        Ok(history.check(&found[0])?)
    });
    let shown: Vec<String> =
        failure.unwrap_err().to_string().lines().map(|line| format!("//! {line}")).collect();
    let page = include_str!("lib.rs");
    assert!(page.contains(&shown.join("\n")), "{shown:#?}");
}
