//! raid10: where the copies of each chunk are.
//!
//! Source: `raid10.c` of Linux 6.12 and `md(4)`. Numbers are chunks.

/// A layout of raid10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    near: u32,
    far: u32,
    is_offset: bool,
    /// Members in a set, of far copies.
    set: u32,
    members: u32,
    /// Chunks from one far copy to the next.
    stride: u64,
    /// Chunks of the array.
    size: u64,
}

impl Layout {
    /// A layout by its number in the superblock, over members with this many chunks each.
    ///
    /// # Errors
    /// The number has unknown bits or says what is impossible; too few members.
    pub fn new(number: u32, members: u32, chunks: u64) -> Result<Layout, String> {
        let (near, far) = (number & 0xff, number >> 8 & 0xff);
        let wrong = |what: &str| Err(format!("raid10 has the layout {number:#x}, {what}"));
        if number >> 19 != 0 {
            return wrong("with unknown bits; bits 0 to 18 are known");
        }
        if near == 0 || far == 0 {
            return wrong("with no copies; near and far copies are 1 at least");
        }
        let copies = near * far;
        if copies > members || members > 1920 {
            return wrong(&format!(
                "with {copies} copies on {members} members; as many members are needed, and at most 1920"
            ));
        }
        let is_offset = number & 1 << 16 != 0;
        if is_offset && far > 1 && !members.is_multiple_of(near) {
            return wrong(&format!(
                "with near copies and an offset on {members} members, which puts two chunks in one place; the members must \
                 be a multiple of {near}"
            ));
        }
        let set = match number >> 17 {
            0 => members,
            1 => members / far,
            2 => near * far,
            _ => return wrong("with both kinds of sets; one is possible"),
        };
        if far > 1 && set < copies {
            return wrong(&format!(
                "with sets of {set} members for {copies} copies; a set needs as many members"
            ));
        }
        let size = chunks / u64::from(far) * u64::from(members) / u64::from(near);
        let used = (size.saturating_mul(u64::from(copies))).div_ceil(u64::from(members));
        let stride = if is_offset { 1 } else { used / u64::from(far) };
        Ok(Layout { near, far, is_offset, set, members, stride, size })
    }

    /// Chunks of the array.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Near copies, far copies, and whether the far ones are in the next row.
    pub fn copies(&self) -> (u32, u32, bool) {
        (self.near, self.far, self.is_offset)
    }

    /// Each copy of a chunk: member and chunk there, the first copy first.
    pub fn find(&self, chunk: u64) -> Vec<(u32, u64)> {
        let members = u64::from(self.members);
        let first = chunk * u64::from(self.near);
        let (mut row, mut member) = (first / members, (first % members) as u32);
        if self.is_offset {
            row *= u64::from(self.far);
        }
        let mut copies = Vec::with_capacity((self.near * self.far) as usize);
        for _ in 0..self.near {
            copies.push((member, row));
            let (mut other, mut below) = (member, row);
            for _ in 1..self.far {
                other = self.next_far(other);
                below += self.stride;
                copies.push((other, below));
            }
            member += 1;
            if member == self.members {
                (member, row) = (0, row + 1);
            }
        }
        copies
    }

    /// The member of the next far copy. Copies stay in their set; the last set has the members that are left over.
    fn next_far(&self, member: u32) -> u32 {
        let over = self.members % self.set;
        let last = (self.members / self.set - 1) * self.set;
        let set = member / self.set;
        let next = member + self.near;
        if over != 0 && member >= last {
            return last + (next - last) % (self.set + over);
        }
        set * self.set + (next - set * self.set) % self.set
    }
}
