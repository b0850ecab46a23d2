//! Random lives of a controller beside a model of what a host may rely on.

use super::*;
use alloc::collections::BTreeSet;
use proptest::prelude::*;

/// What a host does.
#[derive(Clone, Debug)]
enum Deed {
    Write {
        slba: u64,
        blocks: u64,
        value: u8,
        fua: bool,
    },
    Read {
        slba: u64,
        blocks: u64,
        fua: bool,
    },
    /// Compares with what is there, or with something else in the last block.
    Compare {
        slba: u64,
        blocks: u64,
        right: bool,
    },
    Swap {
        slba: u64,
        blocks: u64,
        value: u8,
        right: bool,
    },
    Zero {
        slba: u64,
        blocks: u64,
        fua: bool,
    },
    Deallocate {
        slba: u64,
        blocks: u64,
    },
    Verify {
        slba: u64,
        blocks: u64,
    },
    Flush,
    Format,
    Protect(bool),
    Cache(bool),
    /// The power fails: each block keeps what is durable, or what was written last.
    Cut(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    // Some ranges end behind the last block.
    let range = || (0..BLOCKS as u64 + 2, 1u64..12);
    prop_oneof![
        6 => (range(), 1u8.., any::<bool>()).prop_map(|((slba, blocks), value, fua)| Deed::Write { slba, blocks, value, fua }),
        4 => (range(), any::<bool>()).prop_map(|((slba, blocks), fua)| Deed::Read { slba, blocks, fua }),
        2 => (range(), any::<bool>()).prop_map(|((slba, blocks), right)| Deed::Compare { slba, blocks, right }),
        3 => (range(), 1u8.., any::<bool>()).prop_map(|((slba, blocks), value, right)| Deed::Swap { slba, blocks, value, right }),
        2 => (range(), any::<bool>()).prop_map(|((slba, blocks), fua)| Deed::Zero { slba, blocks, fua }),
        2 => range().prop_map(|(slba, blocks)| Deed::Deallocate { slba, blocks }),
        1 => range().prop_map(|(slba, blocks)| Deed::Verify { slba, blocks }),
        2 => Just(Deed::Flush),
        1 => Just(Deed::Format),
        1 => any::<bool>().prop_map(Deed::Protect),
        1 => any::<bool>().prop_map(Deed::Cache),
        1 => any::<u64>().prop_map(Deed::Cut),
    ]
}

/// The contents that a block may have: `None` for anything, as after a deallocation.
type Content = Option<u8>;

struct Life {
    controller: Controller,
    medium: Medium,
    now: [Content; BLOCKS],
    /// What each block may have after a power cut.
    after_cut: [BTreeSet<Content>; BLOCKS],
    is_protected: bool,
    caches: bool,
    /// Commands that failed by themselves.
    failures: u64,
}

impl Life {
    fn new() -> Life {
        Life {
            controller: controller(limits()),
            medium: Medium::new(),
            now: [Some(0); BLOCKS],
            after_cut: core::array::from_fn(|_| BTreeSet::from([Some(0)])),
            is_protected: false,
            caches: true,
            failures: 0,
        }
    }

    fn run(&mut self, entry: &Entry, data: &[u8]) -> Response {
        let response = self.medium.run(&mut self.controller, entry, data);
        self.failures += u64::from(!response.status.is_success());
        response
    }

    fn written(&mut self, slba: u64, blocks: u64, content: Content, durable: bool) {
        for n in slba as usize..(slba + blocks) as usize {
            self.now[n] = content;
            if durable {
                self.after_cut[n].clear();
            }
            self.after_cut[n].insert(content);
        }
    }

    fn flushed(&mut self) {
        for (after_cut, now) in self.after_cut.iter_mut().zip(self.now) {
            *after_cut = BTreeSet::from([now]);
        }
    }

    /// The status of a command that names blocks, before anything else may be wrong with it.
    fn expected(&self, slba: u64, blocks: u64, changes: bool) -> Status {
        match slba + blocks > BLOCKS as u64 {
            true => Status::LBA_OUT_OF_RANGE,
            false if changes && self.is_protected => Status::WRITE_PROTECTED,
            false => Status::SUCCESS,
        }
    }

    /// Bytes that are where a host expects them; what is not known is taken from the medium.
    fn image(&self, slba: u64, blocks: u64) -> Vec<u8> {
        let block = |n: usize| match self.now.get(n).copied().flatten() {
            Some(value) => vec![value; BLOCK],
            None => self
                .medium
                .bytes
                .get(n * BLOCK..(n + 1) * BLOCK)
                .map_or_else(|| vec![0; BLOCK], <[u8]>::to_vec),
        };
        (slba as usize..(slba + blocks) as usize).flat_map(block).collect()
    }

    fn do_deed(&mut self, deed: &Deed) {
        match *deed {
            Deed::Write { slba, blocks, value, fua } => {
                let entry = on(&command::WRITE, slba, blocks).with("fua", fua.into());
                let response = self.run(&entry, &vec![value; blocks as usize * BLOCK]);
                let wanted = self.expected(slba, blocks, true);
                assert_eq!(response.status, wanted);
                if wanted.is_success() {
                    self.written(slba, blocks, Some(value), fua || !self.caches);
                }
            }
            Deed::Read { slba, blocks, fua } => {
                let response = self.run(&on(&command::READ, slba, blocks).with("fua", fua.into()), &[]);
                let wanted = self.expected(slba, blocks, false);
                assert_eq!(response.status, wanted);
                if wanted.is_success() {
                    assert_eq!(response.data_in, self.image(slba, blocks));
                    // What a read with FUA returned is on the medium.
                    (slba as usize..(slba + blocks) as usize)
                        .filter(|_| fua)
                        .for_each(|n| self.after_cut[n] = BTreeSet::from([self.now[n]]));
                }
            }
            Deed::Compare { slba, blocks, right } => {
                let data = self.guess(slba, blocks, right);
                let response = self.run(&on(&command::COMPARE, slba, blocks), &data);
                assert_eq!(response.status, self.compared(slba, blocks, right, false));
            }
            Deed::Swap { slba, blocks, value, right } => self.swap(slba, blocks, value, right),
            Deed::Zero { slba, blocks, fua } => {
                let response =
                    self.run(&on(&command::WRITE_ZEROES, slba, blocks).with("fua", fua.into()), &[]);
                let wanted = self.expected(slba, blocks, true);
                assert_eq!(response.status, wanted);
                if wanted.is_success() {
                    self.written(slba, blocks, Some(0), fua || !self.caches);
                }
            }
            Deed::Deallocate { slba, blocks } => self.deallocate(slba, blocks),
            Deed::Verify { slba, blocks } => {
                let response = self.run(&on(&command::VERIFY, slba, blocks), &[]);
                assert_eq!(response.status, self.expected(slba, blocks, false));
            }
            Deed::Flush => {
                assert!(self.run(&Entry::new(&command::FLUSH).with("nsid", 1), &[]).status.is_success());
                self.flushed();
            }
            Deed::Format => {
                let response = self.run(&Entry::new(&command::FORMAT_NVM).with("nsid", 1), &[]);
                assert_eq!(response.status, self.expected(0, 1, true));
                if !self.is_protected {
                    self.written(0, BLOCKS as u64, Some(0), true);
                }
            }
            Deed::Protect(on) => self.set(0x84, on),
            Deed::Cache(on) => self.set(0x06, on),
            Deed::Cut(kept) => self.cut(kept),
        }
    }

    fn guess(&self, slba: u64, blocks: u64, right: bool) -> Vec<u8> {
        let mut data = self.image(slba, blocks);
        if let Some(last) = data.last_mut().filter(|_| !right) {
            *last ^= 1;
        }
        data
    }

    fn compared(&self, slba: u64, blocks: u64, right: bool, changes: bool) -> Status {
        match self.expected(slba, blocks, changes) {
            status if status.is_success() && !right => Status::COMPARE_FAILURE,
            status => status,
        }
    }

    fn swap(&mut self, slba: u64, blocks: u64, value: u8, right: bool) {
        let data = [self.guess(slba, blocks, right), vec![value; blocks as usize * BLOCK]].concat();
        let first = on(&command::COMPARE, slba, blocks).with("fuse", 1);
        let pair = [first, on(&command::WRITE, slba, blocks).with("fuse", 2)];
        let [compared, written] =
            self.medium.run_fused(&mut self.controller, &pair, &data).map(|response| response.status);
        let wanted = match self.compared(slba, blocks, right, true) {
            // Either of the two is the reason, and the other fails with it.
            Status::WRITE_PROTECTED => [Status::FAILED_FUSED, Status::WRITE_PROTECTED],
            Status::SUCCESS => [Status::SUCCESS; 2],
            status => [status, Status::FAILED_FUSED],
        };
        assert_eq!([compared, written], wanted);
        self.failures += u64::from(wanted[1] != Status::SUCCESS);
        if written.is_success() {
            self.written(slba, blocks, Some(value), !self.caches);
        }
    }

    fn deallocate(&mut self, slba: u64, blocks: u64) {
        let entry = Entry::new(&command::DATASET_MANAGEMENT).with("nsid", 1).with("ad", 1);
        let response = self.run(&entry, &data::ranges([(slba, blocks as u32)]));
        match self.expected(slba, blocks, true) {
            // A range without a whole unit of discard changes nothing.
            Status::WRITE_PROTECTED => {
                assert!(response.status.is_success() || response.status == Status::WRITE_PROTECTED)
            }
            wanted => assert_eq!(response.status, wanted),
        }
        if response.status.is_success() && !self.is_protected {
            // Only whole units of four blocks lose their contents.
            let whole = (slba as usize).next_multiple_of(4)..(slba + blocks) as usize / 4 * 4;
            for n in whole {
                self.written(n as u64, 1, None, false);
            }
        }
    }

    fn set(&mut self, fid: u64, on: bool) {
        let response = self.run(&feature(&command::SET_FEATURES, fid, on.into()), &[]);
        assert!(response.status.is_success());
        match fid {
            0x84 => {
                if on && !self.is_protected {
                    self.flushed();
                }
                self.is_protected = on;
            }
            _ => {
                if !on && self.caches {
                    self.flushed();
                }
                self.caches = on;
            }
        }
    }

    fn cut(&mut self, kept: u64) {
        for n in 0..BLOCKS {
            let range = n * BLOCK..(n + 1) * BLOCK;
            if kept >> n & 1 == 0 {
                self.medium.bytes[range.clone()].copy_from_slice(&self.medium.durable[range.clone()]);
            }
            let found = &self.medium.bytes[range];
            let allowed = &self.after_cut[n];
            let is = |content: &Content| content.is_none_or(|value| found.iter().all(|byte| *byte == value));
            assert!(
                allowed.iter().any(is),
                "block {n} has {} after a power cut, not of {allowed:?}",
                found[0]
            );
            self.now[n] = if allowed.contains(&None) { None } else { Some(found[0]) };
            self.after_cut[n] = BTreeSet::from([self.now[n]]);
        }
        self.medium.durable.copy_from_slice(&self.medium.bytes);
    }
}

proptest! {
    /// Commands return what was written before, and what they promise to be durable is so.
    #[test]
    fn a_controller_keeps_its_promises(deeds in prop::collection::vec(deed(), 1..60)) {
        let mut life = Life::new();
        for deed in &deeds {
            life.do_deed(deed);
        }
        let all = life.run(&on(&command::READ, 0, BLOCKS as u64), &[]);
        prop_assert_eq!(all.data_in, life.image(0, BLOCKS as u64));
        let errors = log_page(&mut life.controller, lid::ERRORS, 64).data_in;
        prop_assert_eq!(log::ERRORS.decode(&errors).items()[0].get("error_count"), Some(life.failures));
    }
}
