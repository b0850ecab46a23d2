//! The status of each part of the source: the only record of the progress of a copy.

use std::collections::BTreeMap;

/// The status of a part. Each has the character of GNU ddrescue's map files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    /// Not tried yet.
    Untried,
    /// A large read that covers it failed; smaller ones have not been tried.
    Failed,
    /// A small read that covers it failed; single blocks have not been tried.
    Small,
    /// Single blocks that cannot be read.
    Bad,
    /// Copied.
    Done,
}

impl Status {
    const ALL: [(Status, char); 5] = [
        (Status::Untried, '?'),
        (Status::Failed, '*'),
        (Status::Small, '/'),
        (Status::Bad, '-'),
        (Status::Done, '+'),
    ];

    pub(super) fn letter(self) -> char {
        Status::ALL.iter().find(|(status, _)| *status == self).map_or('?', |(_, letter)| *letter)
    }

    pub(super) fn of_letter(letter: char) -> Option<Status> {
        Status::ALL.iter().find(|(_, known)| *known == letter).map(|(status, _)| *status)
    }
}

/// The status of every byte of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// Where each part begins; it ends where the next one begins. Neighbours differ in their status.
    starts: BTreeMap<u64, Status>,
    size: u64,
}

impl Map {
    /// A source of `size` bytes of which nothing has been tried.
    pub(super) fn new(size: u64) -> Map {
        Map { starts: (size > 0).then_some((0, Status::Untried)).into_iter().collect(), size }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The status of a byte.
    pub(super) fn status(&self, pos: u64) -> Option<Status> {
        self.starts.range(..=pos).next_back().map(|(_, status)| *status)
    }

    /// Sets the status of a range, which lies within the source.
    pub(super) fn mark(&mut self, pos: u64, len: u64, status: Status) {
        let end = (pos + len).min(self.size);
        if pos >= end {
            return;
        }
        let after = self.status(end).filter(|_| end < self.size);
        let inside: Vec<u64> = self.starts.range(pos..end).map(|(start, _)| *start).collect();
        inside.iter().for_each(|start| {
            self.starts.remove(start);
        });
        let before = pos.checked_sub(1).and_then(|last| self.status(last));
        if before != Some(status) {
            self.starts.insert(pos, status);
        }
        match after {
            Some(after) if after == status => {
                self.starts.remove(&end);
            }
            Some(after) => {
                self.starts.insert(end, after);
            }
            None => {}
        }
    }

    /// Marks the parts of a range that are not copied. Copied parts stay so: a read may be larger than
    /// requested, to begin and end at blocks.
    pub(super) fn mark_failed(&mut self, pos: u64, len: u64, status: Status) {
        let end = pos + len;
        let missing: Vec<(u64, u64)> = self
            .parts()
            .filter(|(_, _, known)| *known != Status::Done)
            .map(|(start, until, _)| (start.max(pos), until.min(end)))
            .filter(|(start, until)| start < until)
            .collect();
        missing.into_iter().for_each(|(start, until)| self.mark(start, until - start, status));
    }

    /// All parts in order: start, end, status.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, u64, Status)> + '_ {
        let ends = self.starts.keys().copied().skip(1).chain([self.size]);
        self.starts.iter().zip(ends).map(|((start, status), end)| (*start, end, *status))
    }

    /// Starts and ends of the parts with this status.
    pub(super) fn ranges(&self, status: Status) -> Vec<(u64, u64)> {
        self.parts().filter(|part| part.2 == status).map(|(start, end, _)| (start, end)).collect()
    }

    /// Bytes with this status.
    pub(super) fn bytes(&self, status: Status) -> u64 {
        self.ranges(status).iter().map(|(start, end)| end - start).sum()
    }

    /// The first byte that is not copied; the size when all are.
    pub(super) fn first_missing(&self) -> u64 {
        self.parts().find(|part| part.2 != Status::Done).map_or(self.size, |part| part.0)
    }

    /// Where the last copied part ends; 0 when there is none.
    pub(super) fn copied_until(&self) -> u64 {
        self.ranges(Status::Done).last().map_or(0, |range| range.1)
    }

    pub(super) fn is_done(&self) -> bool {
        self.first_missing() == self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(map: &Map) -> String {
        map.parts().map(|(start, end, status)| format!("{start}{}{end} ", status.letter())).collect()
    }

    #[test]
    fn parts_join_and_are_cut() {
        let mut map = Map::new(100);
        map.mark(20, 10, Status::Done);
        map.mark(40, 10, Status::Done);
        assert_eq!(shown(&map), "0?20 20+30 30?40 40+50 50?100 ");
        assert_eq!((map.first_missing(), map.bytes(Status::Done)), (0, 20));
        map.mark(0, 20, Status::Done);
        map.mark(30, 10, Status::Done);
        assert_eq!(shown(&map), "0+50 50?100 ");
        assert_eq!(map.first_missing(), 50);
        map.mark(45, 10, Status::Bad);
        assert_eq!(shown(&map), "0+45 45-55 55?100 ");
        map.mark_failed(40, 30, Status::Failed);
        assert_eq!(shown(&map), "0+45 45*70 70?100 ");
        map.mark(0, 1000, Status::Done);
        assert_eq!((shown(&map), map.is_done()), ("0+100 ".to_owned(), true));
        assert!(Map::new(0).is_done());
        assert_eq!(map.ranges(Status::Bad), []);
    }

    #[test]
    fn any_marks_leave_what_a_plain_list_of_bytes_says() {
        let mut state = 12345u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut map = Map::new(64);
        let mut bytes = [Status::Untried; 64];
        for _ in 0..2000 {
            let pos = random(64);
            let (len, status) = (1 + random(64 - pos), Status::ALL[random(5) as usize].0);
            map.mark(pos, len, status);
            bytes[pos as usize..(pos + len) as usize].fill(status);
            let told: Vec<Status> =
                map.parts().flat_map(|(start, end, status)| (start..end).map(move |_| status)).collect();
            assert_eq!(told, bytes);
            assert!(map.parts().zip(map.parts().skip(1)).all(|(a, b)| a.2 != b.2));
        }
    }
}
