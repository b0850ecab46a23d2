//! The table of rungs, used by the benchmark, the help and the documentation.

/// Which queues share the lock under which bios are queued and requests started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// All queues of the process (2.4's `io_request_lock`).
    All,
    /// None: each queue has its own lock, taken as often as the shared one.
    PerQueue,
    /// There is no lock: each thread has its own queue on the device.
    None,
}

/// How much of a call one bio describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A sector of 512 bytes (or the logical block if that is larger).
    Sector,
    /// A page of 4 KiB if memory is page-aligned, else a sector.
    Page,
    /// All of it.
    Call,
}

/// How a call with several buffers is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vector {
    /// A blocking call for each buffer.
    PerSegment,
    /// One call for all of them.
    OneCall,
}

/// The memory of an open device that describes the I/O of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// The kiobuf of 2.4.17: 8,792 bytes.
    Kiobuf,
    /// The paper's kiobuf: 608 bytes.
    LightKiobuf,
    /// A bio.
    Bio,
}

/// The features that are on and off in a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Every transfer is copied through the low pool.
    pub bounce: bool,
    /// Lock.
    pub lock: Lock,
    /// Unit. With [`Unit::Call`] the handle uses the engine's own synchronous call, and the other switches
    /// must be those of the last rung.
    pub unit: Unit,
    /// Vectored calls.
    pub vector: Vector,
    /// Descriptor.
    pub descriptor: Descriptor,
    /// Requests are prepared before the queue's lock is taken, where the disk allows it.
    pub prebuild: bool,
}

/// A rung.
#[derive(Clone, Copy, Debug)]
pub struct Rung {
    /// The paper's name of the kernel; of a change that the paper only proposes, the name below it with a letter more.
    pub name: &'static str,
    /// The change that it adds, in one line.
    pub adds: &'static str,
    /// The corresponding change in the kernel.
    pub kernel: &'static str,
    /// The implementation here.
    pub here: &'static str,
    /// The features that are on and off.
    pub switches: Switches,
}

const BASELINE: Switches = Switches {
    bounce: true,
    lock: Lock::All,
    unit: Unit::Sector,
    vector: Vector::PerSegment,
    descriptor: Descriptor::Kiobuf,
    prebuild: false,
};
const SB: Switches = Switches { bounce: false, ..BASELINE };
const SBI: Switches = Switches { lock: Lock::PerQueue, ..SB };
const SBIR: Switches = Switches { unit: Unit::Page, ..SBI };
const SBIRV: Switches = Switches { vector: Vector::OneCall, descriptor: Descriptor::LightKiobuf, ..SBIR };
const SBIRVP: Switches = Switches { prebuild: true, ..SBIRV };
const BIO: Switches = Switches { lock: Lock::None, unit: Unit::Call, descriptor: Descriptor::Bio, ..SBIRVP };

/// Every rung, from the lowest up.
pub static TABLE: &[Rung] = &[
    Rung {
        name: "Baseline",
        adds: "nothing yet: everything below is switched off",
        kernel: "2.4.17: memory above 1 GiB is read through bounce pages in low memory",
        here: "each unit is read into a page of a fixed low pool and copied to the caller's buffer",
        switches: BASELINE,
    },
    Rung {
        name: "SB",
        adds: "no bounce buffers",
        kernel: "block-highmem: devices transfer to the caller's memory wherever it is",
        here: "bios point at the caller's memory; the copy is gone",
        switches: SB,
    },
    Rung {
        name: "SBI",
        adds: "a lock for each queue",
        kernel: "io_request_lock split: queueing to one device no longer waits for all others",
        here: "the lock that is taken for each bio and each start is the queue's own, no longer the process's",
        switches: SBI,
    },
    Rung {
        name: "SBIR",
        adds: "units of a page",
        kernel: "rawvary: raw I/O is queued in buffer heads of 4 KiB instead of 512 bytes",
        here: "a bio for each aligned 4 KiB instead of each sector",
        switches: SBIR,
    },
    Rung {
        name: "SBIRV",
        adds: "vectored calls are one call; light kiobufs",
        kernel: "readv/writev: the buffers of a vector are mapped together, read together and waited for once; \
                 and the smaller kiobuf of section 8, which saves memory and no time",
        here: "the buffers of a call are submitted together: one request, one wait; 608 bytes describe it",
        switches: SBIRV,
    },
    Rung {
        name: "SBIRVP",
        adds: "requests prepared outside the lock",
        kernel: "none: section 9.2 proposes \"command pre-building outside of the queue lock\"",
        here: "a bio is examined before the queue's lock is taken: its range, flags and pieces",
        switches: SBIRVP,
    },
    Rung {
        name: "bio",
        adds: "the bio",
        kernel: "2.5.17 and after: one descriptor with a vector of segments for all of an I/O",
        here: "one bio for the whole call on the calling thread's own queue, without an elevator or a lock",
        switches: BIO,
    },
];

/// The rung with that name, ignoring case.
pub fn find(name: &str) -> Option<&'static Rung> {
    TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_up_to_the_bio_changes_what_its_patch_changed() {
        for pair in TABLE[..6].windows(2) {
            let (a, b) = (pair[0].switches, pair[1].switches);
            let changed = [
                a.bounce != b.bounce,
                a.lock != b.lock,
                a.unit != b.unit,
                a.vector != b.vector,
                a.descriptor != b.descriptor,
                a.prebuild != b.prebuild,
            ];
            // The light kiobuf was added together with vectored calls.
            let expected = if pair[1].name == "SBIRV" { 2 } else { 1 };
            assert_eq!(changed.iter().filter(|c| **c).count(), expected, "to {}", pair[1].name);
        }
    }

    #[test]
    fn rungs_have_the_papers_names_in_its_order() {
        let names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
        assert_eq!(names, ["Baseline", "SB", "SBI", "SBIR", "SBIRV", "SBIRVP", "bio"]);
        assert!(find("sbirv").is_some() && find("SBX").is_none());
        assert!(TABLE.iter().all(|row| !row.adds.ends_with('.') && !row.here.contains('\n')));
    }
}
