//! The rows of raid4, raid5 and raid6: which member has which block.
//!
//! A row is one chunk of each member, at the same place of all of them.
//! Source: the layouts of Linux 6.12 (`raid5.h`) and of the Common RAID Disk Data Format 2.0 (8 to 10).

use crate::gf::Block;
use crate::superblock::Level;

/// A layout of one of these levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    level: Level,
    number: u32,
    members: u32,
}

/// The order of the data in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// From member 0 on, without P and Q.
    Skip,
    /// From this member on, round all members, or all but the last if the row says so.
    From(u32),
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    layout: Layout,
    p: u32,
    q: Option<u32>,
    order: Order,
    /// Members among which the order goes round.
    round: u32,
}

impl Layout {
    /// Checks a layout.
    ///
    /// # Errors
    /// The level does not have it, or takes more members.
    pub fn new(level: Level, number: u32, members: u32) -> Result<Layout, String> {
        let (known, allowed, least) = match level {
            Level::Raid4 => (number == 0 || number == 5, "0", 2),
            Level::Raid5 => (number <= 5, "0 to 5", 2),
            Level::Raid6 => (
                matches!(number, 0..=5 | 8..=10 | 16..=20),
                "0 to 5, 8 to 10 and 16 to 20",
                if number >= 16 { 4 } else { 3 },
            ),
            other => return Err(format!("{other} has no parity")),
        };
        if !known {
            return Err(format!("{level} has the layout {number}; known are {allowed}"));
        }
        let most = if level == Level::Raid6 { 257 } else { 1920 };
        if !(least..=most).contains(&members) {
            return Err(format!("{level} has {members} members; {least} to {most} are possible"));
        }
        Ok(Layout { level, number, members })
    }

    /// Blocks of data in a row.
    pub fn data(&self) -> u32 {
        self.members - if self.level == Level::Raid6 { 2 } else { 1 }
    }

    /// The row of a number.
    pub fn row(&self, row: u64) -> Row {
        match self.level {
            Level::Raid6 => self.row6(row),
            Level::Raid5 => self.row5(row, self.members, self.number),
            _ => self.row5(row, self.members, 5),
        }
    }

    /// A row of raid5 over some members.
    fn row5(&self, row: u64, members: u32, number: u32) -> Row {
        let turn = (row % u64::from(members)) as u32;
        let down = members - 1 - turn;
        let (p, order) = match number {
            0 => (down, Order::Skip),
            1 => (turn, Order::Skip),
            2 => (down, Order::From(down + 1)),
            3 => (turn, Order::From(turn + 1)),
            4 => (0, Order::Skip),
            _ => (members - 1, Order::Skip),
        };
        Row { layout: *self, p, q: None, order, round: members }
    }

    fn row6(&self, row: u64) -> Row {
        let members = self.members;
        if self.number >= 16 {
            let row = self.row5(row, members - 1, self.number - 16);
            return Row { q: Some(members - 1), ..row };
        }
        let turn = |row: u64| (row % u64::from(members)) as u32;
        let (up, down) = (turn(row), members - 1 - turn(row));
        let next = |p: u32| (p + 1) % members;
        let (p, q, order) = match self.number {
            0 => (down, next(down), Order::Skip),
            1 | 8 => (up, next(up), Order::Skip),
            2 => (down, next(down), Order::From(down + 2)),
            3 => (up, next(up), Order::From(up + 2)),
            4 => (0, 1, Order::Skip),
            5 => (members - 2, members - 1, Order::Skip),
            9 => {
                let p = members - 1 - turn(row.wrapping_add(1));
                (p, next(p), Order::Skip)
            }
            _ => (down, (down + members - 1) % members, Order::From(down + 1)),
        };
        Row { layout: *self, p, q: Some(q), order, round: members }
    }
}

impl Row {
    /// The member with a block.
    pub fn member(&self, block: Block) -> Option<u32> {
        match block {
            Block::P => Some(self.p),
            Block::Q => self.q,
            Block::Data(number) if number >= self.layout.data() => None,
            Block::Data(number) => Some(match self.order {
                Order::From(start) => (start + number) % self.round,
                Order::Skip => {
                    let (low, high) = match self.q {
                        Some(q) => (self.p.min(q), self.p.max(q)),
                        None => (self.p, u32::MAX),
                    };
                    let past_low = if number >= low { number + 1 } else { number };
                    if past_low >= high { past_low + 1 } else { past_low }
                }
            }),
        }
    }

    /// The block on a member.
    pub fn block(&self, member: u32) -> Block {
        if member == self.p {
            return Block::P;
        }
        if self.q == Some(member) {
            return Block::Q;
        }
        let data = (0..self.layout.data()).map(Block::Data);
        data.into_iter().find(|&block| self.member(block) == Some(member)).unwrap_or(Block::P)
    }

    /// Whether there is a Q.
    pub fn has_q(&self) -> bool {
        self.q.is_some()
    }

    /// The power of the generator that each block of data has in Q.
    pub fn exponents(&self) -> Vec<u32> {
        let data = (0..self.layout.data()).filter_map(|number| self.member(Block::Data(number)));
        let Some(q) = self.q else { return vec![0; self.layout.data() as usize] };
        if matches!(self.layout.number, 8..=10) {
            // These count all members, and P and Q as zeroes.
            return data.collect();
        }
        let members = self.layout.members;
        // From the member behind Q on, without P.
        let distance = |member: u32| (member + members - q - 1) % members;
        let of_p = distance(self.p);
        data.map(|member| distance(member) - u32::from(distance(member) > of_p)).collect()
    }
}
