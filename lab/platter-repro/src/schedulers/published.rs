//! The published tables.

/// A cell of Morton's table, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Seconds {
    /// One figure.
    One(f64),
    /// The first and the last of several processes, or a range.
    Range(f64, f64),
    /// Given up after this time.
    Over(f64),
    /// Not measured.
    None,
}

/// A row of Morton's table: "IO scheduler benchmarking", linux-kernel, 20 February 2003.
pub(super) struct MortonRow {
    /// The scene.
    pub(super) scene: &'static str,
    /// 2.4.21-pre4, 2.5.61 with deadline, CFQ, AS.
    pub(super) seconds: [Seconds; 4],
}

/// The elevators of [`MortonRow::seconds`].
pub(super) const MORTON_ELEVATORS: [&str; 4] = ["linus", "deadline", "cfq-v1", "anticipatory"];

use Seconds::{None, One, Over, Range};

/// Morton's table.
pub(super) const MORTON: [MortonRow; 10] = [
    MortonRow {
        scene: "parallel-reads",
        seconds: [Range(6.1, 37.0), Range(132.0, 133.5), Range(50.8, 92.3), Range(28.0, 34.8)],
    },
    MortonRow {
        scene: "parallel-reads-8k",
        seconds: [None, Range(490.0, 500.0), Range(468.0, 500.0), Range(28.1, 29.3)],
    },
    MortonRow { scene: "start-during-write", seconds: [One(62.0), One(14.0), One(11.0), One(12.0)] },
    MortonRow { scene: "start-during-read", seconds: [One(45.0), One(5.0), One(8.0), One(9.0)] },
    MortonRow { scene: "copy-trees", seconds: [One(70.0), One(72.0), One(69.0), One(66.0)] },
    MortonRow {
        scene: "six-trees",
        seconds: [One(418.0), Range(220.0, 237.0), Range(316.0, 351.0), Range(45.0, 53.0)],
    },
    MortonRow { scene: "read-during-write", seconds: [One(42.0), One(48.0), One(27.0), One(3.8)] },
    MortonRow { scene: "tree-during-write", seconds: [Over(900.0), One(447.0), One(595.0), One(17.0)] },
    MortonRow { scene: "tree-during-read", seconds: [One(1890.0), One(219.0), One(307.0), One(17.0)] },
    MortonRow { scene: "fsync-during-read", seconds: [One(6.4), One(7.7), One(8.4), One(11.9)] },
];

/// A row of Axboe's table: "Time sliced CFQ io scheduler", linux-kernel, 2 December 2004.
pub(super) struct AxboeRow {
    /// The scenes with 1, 2, 4 and 8 clients.
    pub(super) scenes: [&'static str; 4],
    /// KiB per second of all clients with [`AXBOE_ELEVATORS`], for 1, 2, 4 and 8 of them.
    pub(super) kib_per_s: [[f64; 4]; 3],
}

/// The elevators of Axboe's table.
pub(super) const AXBOE_ELEVATORS: [&str; 3] = ["deadline", "anticipatory", "cfq"];

/// Axboe's table.
pub(super) const AXBOE: [AxboeRow; 4] = [
    AxboeRow {
        scenes: ["seq-read-1", "seq-read-2", "seq-read-4", "seq-read-8"],
        kib_per_s: [
            [19837.0, 4230.0, 1444.0, 1201.0],
            [19480.0, 18434.0, 17970.0, 17581.0],
            [19433.0, 17312.0, 17963.0, 17134.0],
        ],
    },
    AxboeRow {
        scenes: ["rand-read-1", "rand-read-2", "rand-read-4", "rand-read-8"],
        kib_per_s: [
            [7042.0, 6103.0, 6124.0, 5487.0],
            [7041.0, 6912.0, 6901.0, 6765.0],
            [7027.0, 6841.0, 6844.0, 6795.0],
        ],
    },
    AxboeRow {
        scenes: ["seq-write-1", "seq-write-2", "seq-write-4", "seq-write-8"],
        kib_per_s: [
            [13406.0, 3104.0, 2759.0, 2604.0],
            [13330.0, 5388.0, 4988.0, 3866.0],
            [13267.0, 12459.0, 12524.0, 12564.0],
        ],
    },
    AxboeRow {
        scenes: ["rand-write-1", "rand-write-2", "rand-write-4", "rand-write-8"],
        kib_per_s: [
            [6749.0, 2574.0, 1715.0, 2147.0],
            [4110.0, 1623.0, 1760.0, 2863.0],
            [4493.0, 3216.0, 2002.0, 7210.0],
        ],
    },
];

/// Levels and KiB per second of Axboe's seven readers, 13 December 2004.
pub(super) const PRIORITIES: [(u8, f64); 7] =
    [(0, 5884.0), (1, 5102.0), (1, 5062.0), (3, 3551.0), (3, 3562.0), (4, 2631.0), (6, 1253.0)];
