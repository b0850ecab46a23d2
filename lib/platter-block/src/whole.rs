//! Bios that a layer carries out in parts: each part keeps the memory of the whole bio alive.
//!
//! When a layer makes several bios of one (such as a part for each disk of an array), the parts share the memory of
//! the whole bio. It may be freed or returned to the program only when no part can touch it any more. Each part therefore
//! owns a share of the whole, and the whole is dropped only after all shares, also where a layer ends it before its last part.

use crate::bio::{Bio, Op, Segments};
use crate::fault::{Fault, Kind, Stage};
use crate::owner::Owner;
use crate::segment::Segment;
use alloc::sync::Arc;

/// A bio that is carried out in parts. An empty one can be reused without an allocation.
#[derive(Default)]
pub struct Whole(Arc<Option<Bio>>);

impl Whole {
    /// Starts with a new bio. If parts of the previous bio are still in flight, they keep that bio alive.
    pub fn begin(&mut self, bio: Bio) {
        match Arc::get_mut(&mut self.0) {
            Some(place) => *place = Some(bio),
            None => self.0 = Arc::new(Some(bio)),
        }
    }

    /// The bio, if there is one.
    #[inline]
    pub fn bio(&self) -> Option<&Bio> {
        self.0.as_ref().as_ref()
    }

    /// Resets `part` to an operation at `pos` on behalf of the whole: it gets the flags, priority, context and
    /// handle of the whole, but no segments: it gets them from a [`Source`]. It owns a share of the whole until it is
    /// reset or dropped.
    pub fn share(&self, part: &mut Bio, op: Op, pos: u64) {
        part.reset(op, pos, 0);
        part.set_owner(Owner::internal(Arc::clone(&self.0)));
        if let Some(bio) = self.bio() {
            part.add_flags(bio.flags());
            part.set_ioprio(bio.ioprio());
            part.set_context(bio.context());
            part.set_handle(bio.handle());
        }
    }

    /// The memory of what is left of the bio, from front to back.
    pub fn source(&self) -> Source<'_> {
        Source { whole: self, current: Segment::EMPTY, rest: self.bio().map(Bio::segments) }
    }

    /// Takes the bio out: as completed, or as failed with the first `done` bytes done. While parts are still in
    /// flight, it returns a bio without memory that stands for the whole; the memory is freed after the last part.
    pub fn end(&mut self, failed: Option<(Fault, u64)>) -> Option<Bio> {
        let mut bio = match Arc::get_mut(&mut self.0) {
            Some(place) => place.take()?,
            None => {
                let copy = self.bio()?.stand_in();
                self.0 = Arc::default();
                copy
            }
        };
        match failed {
            None => bio.finish(),
            Some((fault, done)) => {
                bio.advance(done);
                bio.fail(fault);
            }
        }
        Some(bio)
    }
}

/// The memory of a whole that its parts have not got yet. Only parts that own a share of the whole get some of it, so it cannot
/// outlive the whole.
///
/// ```
/// use platter_block::bio::{Bio, Op};
/// use platter_block::whole::Whole;
/// let mut whole = Whole::default();
/// whole.begin(Bio::read(0, vec![0u8; 4096])?);
/// let mut part = Bio::flush();
/// whole.share(&mut part, Op::Read, 512);
/// let mut source = whole.source();
/// source.skip(1024);
/// source.give(&mut part, 2048)?;
/// assert_eq!((part.pos(), part.len()), (512, 2048));
/// assert!(source.give(&mut Bio::new(Op::Read, 0, 0), 512).is_err(), "it has no share");
/// # Ok::<(), platter_block::fault::Fault>(())
/// ```
#[derive(Clone)]
pub struct Source<'a> {
    whole: &'a Whole,
    current: Segment,
    rest: Option<Segments<'a>>,
}

impl Source<'_> {
    /// Passes over the next bytes.
    pub fn skip(&mut self, mut bytes: u64) {
        while bytes > 0
            && let Some(piece) = self.next(bytes)
        {
            bytes -= u64::from(piece.len());
        }
    }

    /// The number of pieces in the next `bytes` bytes.
    #[inline]
    pub fn pieces(&self, bytes: u64) -> usize {
        if u64::from(self.current.len()) >= bytes {
            return 1;
        }
        let (mut ahead, mut left, mut count) = (self.clone(), bytes, 0);
        while left > 0
            && let Some(piece) = ahead.next(left)
        {
            left -= u64::from(piece.len());
            count += 1;
        }
        count
    }

    /// Adds the next `bytes` bytes to a part, which becomes as much longer.
    ///
    /// # Errors
    /// [`Kind::Contract`]: the part has no share of this whole, or reads from the device while the whole does not.
    /// [`Kind::BadSegments`]: there is less memory, or the part is full; it may have got some of the memory.
    #[inline]
    pub fn give(&mut self, part: &mut Bio, mut bytes: u64) -> Result<(), Fault> {
        let shares =
            part.owner().get::<Arc<Option<Bio>>>().is_some_and(|own| Arc::ptr_eq(own, &self.whole.0));
        let reads = self.whole.bio().is_some_and(Bio::is_from_device);
        if !shares || (part.is_from_device() && !reads) {
            return Err(Fault::new(Kind::Contract, Stage::Layer));
        }
        while bytes > 0 {
            let piece = self.next(bytes).ok_or(Fault::new(Kind::BadSegments, Stage::Layer))?;
            part.lengthen(piece)?;
            bytes -= u64::from(piece.len());
        }
        Ok(())
    }

    /// The next piece, of at most `most` bytes; `None` at the end.
    #[inline]
    fn next(&mut self, most: u64) -> Option<Segment> {
        while self.current.is_empty() {
            self.current = self.rest.as_mut()?.next()?;
        }
        let len = u32::try_from(most).unwrap_or(u32::MAX).min(self.current.len());
        let piece = self.current.slice(0, len);
        self.current = self.current.slice(len, u32::MAX);
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::Flags;
    use crate::handle::HandleId;
    use alloc::sync::Weak;
    use alloc::vec;

    /// A bio with memory, and a way to tell whether that memory still exists.
    fn watched() -> (Bio, Weak<()>) {
        let life = Arc::new(());
        let watch = Arc::downgrade(&life);
        let mut bio = Bio::write(4096, vec![1u8; 1024]).unwrap();
        bio.set_token(7);
        bio.set_owner(Owner::new(life));
        (bio, watch)
    }

    #[test]
    fn the_whole_comes_back_when_its_parts_have() {
        let (mut bio, watch) = watched();
        bio.add_flags(Flags::FUA);
        bio.set_handle(HandleId(3));
        let mut whole = Whole::default();
        whole.begin(bio);
        let mut part = Bio::flush();
        whole.share(&mut part, Op::Write, 512);
        assert_eq!((part.pos(), part.len(), part.flags(), part.token()), (512, 0, Flags::FUA, 0));
        assert_eq!(part.handle(), HandleId(3));
        whole.source().give(&mut part, 512).unwrap();
        assert_eq!((part.len(), part.segment_count()), (512, 1));
        part.reset(Op::Flush, 0, 0);
        let back = whole.end(None).unwrap();
        assert_eq!((back.token(), back.done(), back.status()), (7, 1024, Ok(())));
        assert_eq!(back.segment_bytes(), 1024);
        assert!(watch.upgrade().is_some() && whole.end(None).is_none());
        drop(back);
        assert!(watch.upgrade().is_none());
    }

    /// Memory of a whole goes to its parts only, and is not written to by a part of a write.
    #[test]
    fn only_parts_get_memory_and_reads_only_that_of_reads() {
        let (bio, _) = watched();
        let (mut whole, mut other) = (Whole::default(), Whole::default());
        whole.begin(bio);
        other.begin(Bio::write(0, vec![2u8; 1024]).unwrap());
        let mut part = Bio::flush();
        let give = |part: &mut Bio, bytes| whole.source().give(part, bytes).map_err(|fault| fault.kind);
        other.share(&mut part, Op::Write, 0);
        assert_eq!(give(&mut part, 512), Err(Kind::Contract), "the part of another");
        whole.share(&mut part, Op::Read, 0);
        assert_eq!(give(&mut part, 512), Err(Kind::Contract), "a read over memory of a write");
        assert_eq!(part.segment_bytes(), 0);
        whole.share(&mut part, Op::Write, 0);
        assert_eq!(give(&mut part, 1025), Err(Kind::BadSegments), "more than there is");
        whole.share(&mut part, Op::Write, 0);
        assert_eq!((give(&mut part, 1024), part.len()), (Ok(()), 1024));
        part.reset(Op::Read, 0, 0);
        assert_eq!(give(&mut part, 512), Err(Kind::Contract), "no share any more");
    }

    /// A layer may end the whole before its last part, as long as that does not change the device: the submitter gets no memory,
    /// and the memory is freed last.
    #[test]
    fn memory_outlives_the_last_part() {
        let (bio, watch) = watched();
        let mut whole = Whole::default();
        whole.begin(bio);
        let mut part = Bio::flush();
        whole.share(&mut part, Op::Write, 512);
        let fault = Fault::new(Kind::TimedOut, Stage::Queue);
        let back = whole.end(Some((fault, 512))).unwrap();
        assert_eq!((back.token(), back.done(), back.status()), (7, 512, Err(fault)));
        assert_eq!(back.segment_bytes(), 0);
        drop((back, whole));
        assert!(watch.upgrade().is_some());
        drop(part);
        assert!(watch.upgrade().is_none());
    }
}
