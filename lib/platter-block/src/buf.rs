//! Buffers that move into a bio and come back with its result.

use crate::bio::{Bio, Op};
use crate::command::{Command, Transfer};
use crate::fault::{Fault, Kind, Stage};
use crate::owner::Owner;
use crate::segment::{RegionId, Segment};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Memory that a bio can own.
///
/// # Safety
/// The segments that `add_segments` adds must stay valid, at the same addresses, while the buffer is moved, until it
/// is dropped or lent out again; nothing else may write to them during that time. For buffers that are also
/// [`IoBufMut`], they are valid for writes.
pub unsafe trait IoBuf: Send + 'static {
    /// Whether dropping the buffer may run code of the program. Such a buffer is dropped only while its thread holds
    /// no lock of the library. `false` is for buffers that belong to layers; they are dropped at once.
    const IS_FOREIGN: bool = true;

    /// Length in bytes.
    fn byte_len(&self) -> usize;

    /// Adds the buffer's memory to a bio. [`Bio::read`] and similar call it; others do so only to pass the call on to a buffer
    /// that they contain.
    ///
    /// # Errors
    /// More segments than a bio can hold.
    ///
    /// # Safety
    /// The caller moves the buffer into the bio before anything else happens to either of them.
    ///
    /// ```compile_fail,E0133
    /// use platter_block::bio::{Bio, Op};
    /// use platter_block::buf::IoBuf;
    /// let mut bio = Bio::new(Op::Read, 0, 4096);
    /// vec![0u8; 4096].add_segments(&mut bio)?; // the vector is dropped
    /// # Ok::<(), platter_block::fault::Fault>(())
    /// ```
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault>;
}

/// Memory that can be read into.
///
/// # Safety
/// The segments of the buffer are valid for writes and its bytes may take any value.
pub unsafe trait IoBufMut: IoBuf {}

impl Bio {
    /// A read at byte offset `pos` into all of `buffer`, which the bio owns until it is taken out.
    ///
    /// # Errors
    /// The buffer has more parts than a bio can have segments.
    pub fn read<B: IoBufMut>(pos: u64, buffer: B) -> Result<Bio, Fault> {
        let mut bio = Bio::flush();
        bio.set_transfer(Op::Read, pos, buffer)?;
        Ok(bio)
    }

    /// A write at byte offset `pos` of all of `buffer`, which the bio owns until it is taken out.
    ///
    /// # Errors
    /// The buffer has more parts than a bio can have segments.
    pub fn write<B: IoBuf>(pos: u64, buffer: B) -> Result<Bio, Fault> {
        let mut bio = Bio::flush();
        bio.set_transfer(Op::Write, pos, buffer)?;
        Ok(bio)
    }

    /// Resets the bio to a read into `buffer`.
    ///
    /// # Errors
    /// As for [`Bio::read`].
    pub fn reset_read<B: IoBufMut>(&mut self, pos: u64, buffer: B) -> Result<(), Fault> {
        self.set_transfer(Op::Read, pos, buffer)
    }

    /// Resets the bio to a write of `buffer`.
    ///
    /// # Errors
    /// As for [`Bio::read`].
    pub fn reset_write<B: IoBuf>(&mut self, pos: u64, buffer: B) -> Result<(), Fault> {
        self.set_transfer(Op::Write, pos, buffer)
    }

    /// Resets the bio to a transfer of `buffer` in either direction.
    ///
    /// # Errors
    /// As for [`Bio::read`].
    ///
    /// # Safety
    /// For [`Op::Read`] the buffer's segments must be valid for writes.
    pub unsafe fn reset_with<B: IoBuf>(&mut self, op: Op, pos: u64, buffer: B) -> Result<(), Fault> {
        self.set_transfer(op, pos, buffer)
    }

    /// A command, with all of `buffer` as its data; `()` for a command without. The command may be shared with the
    /// submitter; its outcome is stored in it, so it must not be submitted again before the bio has completed.
    ///
    /// ```
    /// use platter_block::bio::Bio;
    /// use platter_block::command::{Command, CommandSet, Reach, Transfer};
    /// let inquiry = Command::new(CommandSet::Scsi, &[0x12, 0, 0, 0, 96, 0])?
    ///     .with_transfer(Transfer::FromDevice)
    ///     .with_reach(Reach::Nothing);
    /// let bio = Bio::with_command(inquiry, vec![0u8; 96])?;
    /// assert_eq!((bio.len(), bio.changes()), (96, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The buffer has more parts than a bio can have segments, or the command has a direction and the buffer no bytes, or the
    /// other way round ([`Kind::BadSegments`]).
    pub fn with_command<B: IoBufMut>(command: impl Into<Arc<Command>>, buffer: B) -> Result<Bio, Fault> {
        let mut bio = Bio::flush();
        bio.reset_command(command, buffer)?;
        Ok(bio)
    }

    /// Resets the bio to a command with `buffer` as its data, as [`Bio::with_command`].
    ///
    /// # Errors
    /// As for [`Bio::with_command`].
    pub fn reset_command<B: IoBufMut>(
        &mut self,
        command: impl Into<Arc<Command>>,
        buffer: B,
    ) -> Result<(), Fault> {
        self.set_command_transfer(command.into(), buffer)
    }

    /// Turns the bio into one for `command`, with the bio's segments and owner as its data.
    ///
    /// # Safety
    /// If the command transfers data from the device, the segments must be valid for writes.
    pub unsafe fn attach_command(&mut self, command: Arc<Command>) {
        self.set_command(command);
    }

    fn set_command_transfer<B: IoBuf>(&mut self, command: Arc<Command>, buffer: B) -> Result<(), Fault> {
        if (command.transfer() == Transfer::None) != (buffer.byte_len() == 0) {
            return Err(Fault::new(Kind::BadSegments, Stage::Handle));
        }
        self.set_transfer(Op::Read, 0, buffer)?;
        self.set_command(command);
        Ok(())
    }

    fn set_transfer<B: IoBuf>(&mut self, op: Op, pos: u64, mut buffer: B) -> Result<(), Fault> {
        self.reset(op, pos, buffer.byte_len() as u64);
        // SAFETY: the bio becomes the buffer's owner below; on an error it gives up the segments.
        if let Err(fault) = unsafe { buffer.add_segments(self) } {
            self.reset(Op::Flush, 0, 0);
            return Err(fault);
        }
        self.set_owner(if B::IS_FOREIGN { Owner::new(buffer) } else { Owner::internal(buffer) });
        Ok(())
    }

    /// Adds a segment at the end.
    ///
    /// # Errors
    /// [`Kind::BadSegments`] when the list is full ([`MAX_SEGMENTS`](crate::bio::MAX_SEGMENTS)).
    ///
    /// ```compile_fail,E0133
    /// use platter_block::bio::{Bio, Op};
    /// let bio = Bio::read(0, vec![0u8; 4096])?;
    /// let Some(segment) = bio.single_segment() else { return Ok(()) };
    /// drop(bio); // with the vector
    /// let mut other = Bio::new(Op::Read, 0, 4096);
    /// other.push_segment(segment)?;
    /// # Ok::<(), platter_block::fault::Fault>(())
    /// ```
    ///
    /// # Safety
    /// What [`Segment::new`] says about the memory holds for this bio, which did not carry the segment until now: a
    /// segment that another bio or a request has shown says nothing about how long its memory lives. A bio that reads
    /// from the device gets no segment of one that only writes to it.
    #[inline]
    pub unsafe fn push_segment(&mut self, segment: Segment) -> Result<(), Fault> {
        self.add_segment(segment)
    }

    /// Adds a segment at the end and lengthens the bio by the segment's length.
    ///
    /// # Errors
    /// As for [`Bio::push_segment`]; on an error the bio is unchanged.
    ///
    /// ```compile_fail,E0133
    /// use platter_block::bio::{Bio, Op};
    /// let bio = Bio::write(0, vec![0u8; 4096])?;
    /// let segments: Vec<_> = bio.all_segments().collect();
    /// drop(bio); // with the vector
    /// let mut other = Bio::new(Op::Read, 0, 0);
    /// for segment in segments {
    ///     other.extend(segment)?;
    /// }
    /// # Ok::<(), platter_block::fault::Fault>(())
    /// ```
    ///
    /// # Safety
    /// As for [`Bio::push_segment`].
    #[inline]
    pub unsafe fn extend(&mut self, segment: Segment) -> Result<(), Fault> {
        self.lengthen(segment)
    }

    /// Splits off the front: `front` becomes a bio over the first `bytes`, and this one starts after
    /// them. Only descriptors are touched; a long segment list is shared, not copied. The front carries
    /// the flags, priority and context, but not the owner.
    ///
    /// # Safety
    /// The front uses memory that this bio may own: it must have completed before this bio is reset, dropped
    /// or given back to its submitter.
    pub unsafe fn split_into(&mut self, bytes: u64, front: &mut Bio) {
        self.split_front(bytes, front);
    }

    /// Makes this bio a clone of what is left of `other`: same range, same memory, no owner.
    ///
    /// # Safety
    /// As for [`Bio::split_into`]: this bio must have completed before `other` is reset, dropped or given
    /// back to its submitter.
    pub unsafe fn clone_window(&mut self, other: &Bio) {
        self.share_window(other);
    }

    /// Returns the buffer of a completed bio if it is a `B`. `None` after a timeout: the buffer is then dropped when
    /// the driver is done with it. The bio has no memory afterwards, so that a read or write is refused if it is submitted
    /// again ([`Kind::BadSegments`]).
    pub fn take_buffer<B: IoBuf>(&mut self) -> Option<B> {
        self.take_owner()
    }
}

/// Largest single segment: a multiple of every block size that fits `u32`.
const MAX_SEGMENT: usize = 1 << 31;

/// Adds `len` bytes at `addr` to a bio, in as many segments as the length needs.
///
/// # Errors
/// More segments than a bio can hold.
///
/// # Safety
/// As for [`Segment::new`].
pub unsafe fn add_memory(bio: &mut Bio, addr: *mut u8, len: usize, region: RegionId) -> Result<(), Fault> {
    let mut at = 0;
    while at < len {
        let step = (len - at).min(MAX_SEGMENT);
        // SAFETY: a part of the memory that the caller guarantees.
        bio.add_segment(unsafe { Segment::new(addr.wrapping_add(at), step as u32, region) })?;
        at += step;
    }
    Ok(())
}

// SAFETY: a vector's heap memory stays where it is while the vector is moved; it is exclusively owned.
unsafe impl IoBuf for Vec<u8> {
    fn byte_len(&self) -> usize {
        self.len()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the vector goes into the bio's owner next to the segments and is not touched meanwhile.
        unsafe { add_memory(bio, self.as_mut_ptr(), self.len(), RegionId::NONE) }
    }
}

// SAFETY: `len()` bytes of a vector are initialised and writable; any byte is a valid `u8`.
unsafe impl IoBufMut for Vec<u8> {}

// SAFETY: as for `Vec<u8>`.
unsafe impl IoBuf for Box<[u8]> {
    fn byte_len(&self) -> usize {
        self.len()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: as for `Vec<u8>`.
        unsafe { add_memory(bio, self.as_mut_ptr(), self.len(), RegionId::NONE) }
    }
}

// SAFETY: as for `Vec<u8>`.
unsafe impl IoBufMut for Box<[u8]> {}

// SAFETY: static memory is always valid; it is only used for writes to the device.
unsafe impl IoBuf for &'static [u8] {
    fn byte_len(&self) -> usize {
        self.len()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: only valid for reads, which is all that an `IoBuf` without `IoBufMut` promises.
        unsafe { add_memory(bio, self.as_ptr().cast_mut(), self.len(), RegionId::NONE) }
    }
}

/// No memory: for operations without data.
// SAFETY: it adds no segments.
unsafe impl IoBuf for () {
    fn byte_len(&self) -> usize {
        0
    }
    unsafe fn add_segments(&mut self, _bio: &mut Bio) -> Result<(), Fault> {
        Ok(())
    }
}

// SAFETY: there is no memory.
unsafe impl IoBufMut for () {}

/// Several buffers as one vectored transfer.
// SAFETY: each element keeps the contract, and the elements' memory does not move with the vector.
unsafe impl<B: IoBuf> IoBuf for Vec<B> {
    fn byte_len(&self) -> usize {
        self.iter().map(IoBuf::byte_len).sum()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the caller moves the elements into the bio with the vector.
        self.iter_mut().try_for_each(|part| unsafe { part.add_segments(bio) })
    }
}

// SAFETY: as above.
unsafe impl<B: IoBufMut> IoBufMut for Vec<B> {}

#[cfg(feature = "bytes")]
mod of_bytes {
    use super::{IoBuf, IoBufMut, add_memory};
    use crate::bio::Bio;
    use crate::fault::Fault;
    use crate::segment::RegionId;
    use bytes::{Bytes, BytesMut};

    // SAFETY: the bytes are reference-counted and immutable; the handle in the bio keeps them alive.
    unsafe impl IoBuf for Bytes {
        fn byte_len(&self) -> usize {
            self.len()
        }
        unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
            // SAFETY: only valid for reads, which is all that an `IoBuf` without `IoBufMut` promises.
            unsafe { add_memory(bio, self.as_ptr().cast_mut(), self.len(), RegionId::NONE) }
        }
    }

    // SAFETY: the handle has exclusive use of its range of the shared memory.
    unsafe impl IoBuf for BytesMut {
        fn byte_len(&self) -> usize {
            self.len()
        }
        unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
            // SAFETY: the handle goes into the bio's owner next to the segments.
            unsafe { add_memory(bio, self.as_mut_ptr(), self.len(), RegionId::NONE) }
        }
    }

    // SAFETY: `len()` bytes are initialised and exclusively owned.
    unsafe impl IoBufMut for BytesMut {}
}
