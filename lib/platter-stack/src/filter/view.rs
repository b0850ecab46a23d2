//! A bio as filters see it.

use platter_block::bio::{Bio, Flags, IoPrio};
use platter_block::fault::Fault;
use std::ops::Deref;

/// A bio that a filter looks at. It shows all that the bio has; to change are its flags and its priority, and it can fail.
///
/// The bio itself stays with the layer: a filter cannot keep it, nor put another in its place. Its memory may be lent for
/// one call, and must not be reachable when that call has returned.
///
/// ```compile_fail,E0596
/// # use platter_block::{bio::Bio, fault::Fault, time::Time};
/// use platter_stack::filter::{BioView, Filter};
/// #[derive(Clone)]
/// struct Thief(std::sync::Arc<std::sync::Mutex<Vec<Bio>>>);
/// impl Filter for Thief {
///     fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
///         let other = Bio::read(bio.pos(), vec![0u8; bio.len() as usize])?;
///         self.0.lock().unwrap().push(std::mem::replace(bio, other));
///         Ok(now)
///     }
/// }
/// ```
///
/// ```compile_fail,E0594
/// # use platter_block::{bio::Bio, fault::Fault, time::Time};
/// use platter_stack::filter::{BioView, Filter};
/// #[derive(Clone)]
/// struct Thief(std::sync::Arc<std::sync::Mutex<Vec<Bio>>>);
/// impl Filter for Thief {
///     fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
///         **bio = Bio::read(bio.pos(), vec![0u8; bio.len() as usize])?;
///         Ok(now)
///     }
/// }
/// ```
///
/// Nor can it lend the memory to another bio:
///
/// ```compile_fail,E0133
/// # use platter_block::{bio::{Bio, Op}, fault::Fault, time::Time};
/// use platter_stack::filter::{BioView, Filter};
/// #[derive(Clone)]
/// struct Spy;
/// impl Filter for Spy {
///     fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
///         let mut other = Bio::new(Op::Read, 0, 0);
///         bio.single_segment().map(|segment| other.extend(segment)).transpose()?;
///         Ok(now)
///     }
/// }
/// ```
///
/// ```compile_fail,E0596
/// # use platter_block::{fault::Fault, time::Time};
/// use platter_stack::filter::{BioView, Filter};
/// #[derive(Clone)]
/// struct Taker;
/// impl Filter for Taker {
///     fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
///         bio.take_buffer::<Vec<u8>>();
///         Ok(now)
///     }
/// }
/// ```
pub struct BioView<'a>(&'a mut Bio);

/// How the memory of a bio is lent is not a filter's to say.
const OWN: Flags = Flags::BORROWED;

impl<'a> BioView<'a> {
    #[inline]
    pub(super) fn new(bio: &'a mut Bio) -> BioView<'a> {
        BioView(bio)
    }

    /// Adds flags, except [`Flags::BORROWED`].
    #[inline]
    pub fn add_flags(&mut self, flags: Flags) {
        self.0.add_flags(flags.without(OWN));
    }

    /// Takes flags away, except [`Flags::BORROWED`].
    #[inline]
    pub fn remove_flags(&mut self, flags: Flags) {
        self.0.remove_flags(flags.without(OWN));
    }

    /// Sets the priority of the I/O.
    pub fn set_ioprio(&mut self, ioprio: IoPrio) {
        self.0.set_ioprio(ioprio);
    }

    /// Makes the bio fail, as [`Bio::fail`].
    pub fn fail(&mut self, fault: Fault) {
        self.0.fail(fault);
    }

    /// Makes a bio fail that the device has completed: of its bytes, only those before offset `pos` of the device count as done.
    pub fn fail_at(&mut self, pos: u64, fault: Fault) {
        let start = self.0.pos() - self.0.done();
        self.0.rewind(start, self.0.done() + self.0.len());
        self.0.advance(pos.saturating_sub(start));
        self.0.fail(fault);
    }
}

impl Deref for BioView<'_> {
    type Target = Bio;

    #[inline]
    fn deref(&self) -> &Bio {
        self.0
    }
}
