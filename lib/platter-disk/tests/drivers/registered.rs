//! Buffers of a pool, registered with the driver or not: the same data.

use crate::bench::{Disk, on_all};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Op};
use platter_block::driver::Driver;
use platter_block::lane::Lane;
use platter_disk::pool::{PAGE, Pool, PoolBuf};

#[test]
fn registered_and_unregistered_buffers_carry_the_same_data() {
    on_all(8, |name, disk, lane_use| {
        let mut bench = disk.lane(8, lane_use);
        let (known, unknown) = (Pool::new(8, 8192, PAGE).unwrap(), Pool::new(8, 8192, PAGE).unwrap());
        let registered = bench.lane.driver_mut().register(&known.region());
        // A second registration has no effect.
        assert_eq!(bench.lane.driver_mut().register(&known.region()), registered, "{name}");
        // Shared lanes do not use rings, unless a thread of the kernel submits.
        let ring = name.starts_with("uring") && (lane_use != LaneUse::Shared || name.contains("sqpoll"));
        assert_eq!(registered, ring, "{name}");
        for (round, withdraw) in [(1u8, false), (2, false), (3, true)] {
            if withdraw {
                bench.lane.unregister(known.region().id);
            }
            for (i, pools) in
                [[&known, &known], [&unknown, &unknown], [&known, &unknown]].into_iter().enumerate()
            {
                let byte = round * 16 + i as u8;
                let pos = u64::from(byte) * 16384;
                let mut parts: Vec<PoolBuf> = pools.iter().map(|pool| pool.take().unwrap()).collect();
                parts.iter_mut().zip([byte, !byte]).for_each(|(part, byte)| part.fill(byte));
                assert_eq!(bench.one(Bio::write(pos, parts).unwrap()).status(), Ok(()), "{name}");
                // Reads in one piece and in two.
                let mut single = bench.one(Bio::read(pos, pools[0].take().unwrap()).unwrap());
                assert_eq!(single.status(), Ok(()), "{name}");
                let back: PoolBuf = single.take_buffer().unwrap();
                assert!(back.iter().all(|b| *b == byte), "{name}");
                let parts: Vec<PoolBuf> = pools.iter().map(|pool| pool.take().unwrap()).collect();
                let mut double = bench.one(Bio::read(pos, parts).unwrap());
                assert_eq!(double.status(), Ok(()), "{name}");
                let back: Vec<PoolBuf> = double.take_buffer().unwrap();
                let whole = |part: &PoolBuf, byte| part.iter().all(|b| *b == byte);
                assert!(whole(&back[0], byte) && whole(&back[1], !byte), "{name}");
            }
        }
    });
}

#[test]
fn more_regions_than_a_driver_has_places_for_still_work() {
    on_all(4, |name, disk, lane_use| {
        let mut bench = disk.lane(4, lane_use);
        let pools: Vec<Pool> = (0..70).map(|_| Pool::new(1, 4096, PAGE).unwrap()).collect();
        let count = pools.iter().filter(|pool| bench.lane.driver_mut().register(&pool.region())).count();
        assert!(count == 0 || count == 64, "{name}: {count}");
        if let (64, Disk::File(disk, _)) = (count, disk) {
            let fact = disk.facts().into_iter().find(|(name, _)| *name == "memory not registered");
            assert!(fact.is_some_and(|(_, text)| text.contains("64 regions")), "{name}");
        }
        for (i, pool) in pools.iter().enumerate() {
            let mut buf = pool.take().unwrap();
            buf.fill(i as u8 + 1);
            let pos = i as u64 * 4096;
            assert_eq!(bench.one(Bio::write(pos, buf).unwrap()).status(), Ok(()), "{name}");
            let mut read = bench.one(Bio::read(pos, pool.take().unwrap()).unwrap());
            assert!(read.take_buffer::<PoolBuf>().unwrap().iter().all(|b| *b == i as u8 + 1), "{name}");
        }
    });
}

#[test]
fn a_region_in_use_can_be_withdrawn_and_its_pool_dropped() {
    on_all(8, |name, disk, lane_use| {
        let mut bench = disk.lane(8, lane_use);
        let pool = Pool::new(8, 65536, PAGE).unwrap();
        bench.lane.driver_mut().register(&pool.region());
        for pos in 0..8 {
            bench.submit(Bio::read(pos * 65536, pool.take().unwrap()).unwrap());
        }
        bench.run();
        bench.lane.unregister(pool.region().id);
        drop(pool);
        let done = bench.finish();
        assert!(
            done.len() == 8 && done.iter().all(|bio| bio.status().is_ok() && bio.op() == Op::Read),
            "{name}"
        );
    });
}

/// Set in the child process of the test below.
const PINNED: &str = "PLATTER_TEST_PINNED";

/// Kilobytes that the kernel has pinned for this process, if it tells.
fn pinned() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmPin:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// A lane that any thread may use unregisters memory from any thread. In a process of its own, because pinned memory
/// is counted per process.
#[test]
fn memory_is_withdrawn_from_whatever_thread() {
    const NAME: &str = "registered::memory_is_withdrawn_from_whatever_thread";
    if std::env::var_os(PINNED).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", NAME, "--nocapture"]).env(PINNED, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        return assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    let Some(before) = pinned() else { return println!("skipped: the kernel does not say what is pinned") };
    on_all(4, |name, disk, lane_use| {
        let exclusive = lane_use == LaneUse::Exclusive;
        let mut bench = disk.lane(4, lane_use);
        let pool = Pool::new(4, 1 << 20, PAGE).unwrap();
        if exclusive || !bench.lane.driver_mut().register(&pool.region()) {
            return;
        }
        assert!(pinned().unwrap() >= before + 4096, "{name}");
        std::thread::scope(|scope| {
            let (bench, pool) = (&mut bench, &pool);
            scope.spawn(move || bench.lane.unregister(pool.region().id));
        });
        // Older kernels (6.1) unpin it a second later.
        let asked = std::time::Instant::now();
        while pinned().unwrap() != before {
            assert!(asked.elapsed() < std::time::Duration::from_secs(60), "{name}: it stays pinned");
            std::thread::yield_now();
        }
    });
}
