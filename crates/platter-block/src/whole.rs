//! Bios that a layer carries out in parts: each part keeps the memory of the whole bio alive.
//!
//! When a layer makes several bios of one (such as a part for each disk of an array), the parts share the memory of
//! the whole bio. It may be freed or returned to the program only when no part can touch it any more. Parts come back
//! when they complete, except parts that timed out: the layer then gets a bio without memory in its place, while the
//! part itself stays with the driver. Each part therefore owns a share of the whole, and the whole is dropped only
//! after all shares.

use crate::bio::{Bio, Op};
use crate::fault::Fault;
use crate::owner::Owner;
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

    /// Resets `part` to an operation at `pos` on behalf of the whole: it gets the flags, priority, context, deadline
    /// and handle of the whole, but no segments, which are added with [`Bio::extend`]. It owns a share of the whole
    /// until it is reset or dropped.
    pub fn share(&self, part: &mut Bio, op: Op, pos: u64) {
        part.reset(op, pos, 0);
        part.set_owner(Owner::internal(Arc::clone(&self.0)));
        if let Some(bio) = self.bio() {
            part.add_flags(bio.flags());
            part.set_ioprio(bio.ioprio());
            part.set_context(bio.context());
            part.set_handle(bio.handle());
            part.set_deadline(bio.deadline());
        }
    }

    /// Takes the bio out: as completed, or as failed with the first `done` bytes done. While parts are still in
    /// flight, it returns a bio without memory that stands for the whole; the memory is freed after the last part.
    pub fn end(&mut self, failed: Option<(Fault, u64)>) -> Option<Bio> {
        let mut bio = match Arc::get_mut(&mut self.0) {
            Some(place) => place.take()?,
            None => {
                let face = self.bio()?.stand_in();
                self.0 = Arc::default();
                face
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::Flags;
    use crate::fault::{Kind, Stage};
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
        part.extend(whole.bio().unwrap().single_segment().unwrap().slice(0, 512)).unwrap();
        assert_eq!((part.len(), part.segment_count()), (512, 1));
        part.reset(Op::Flush, 0, 0);
        let back = whole.end(None).unwrap();
        assert_eq!((back.token(), back.done(), back.status()), (7, 1024, Ok(())));
        assert_eq!(back.segment_bytes(), 1024);
        assert!(watch.upgrade().is_some() && whole.end(None).is_none());
        drop(back);
        assert!(watch.upgrade().is_none());
    }

    /// After a part timed out, the driver still has it: the submitter gets no memory, and the memory is freed last.
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
