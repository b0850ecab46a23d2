//! A handle as a stream: the calls that move its position.

use super::{Description, Handle};
use crate::adapters::{MAX_CALL, io_error, seek_error};
use platter_block::bio::MAX_SEGMENTS;
use platter_block::fault::Error;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::sync::atomic::Ordering::Relaxed;

impl Description {
    /// Takes the next bytes of a device of `size` bytes, at most `wanted`: returns their offset and number.
    #[inline]
    fn take(&self, size: u64, wanted: usize) -> (u64, usize) {
        let wanted = (wanted as u64).min(MAX_CALL);
        let mut pos = self.position.load(Relaxed);
        loop {
            let bytes = size.saturating_sub(pos).min(wanted);
            if bytes == 0 {
                return (pos, 0);
            }
            match self.position.compare_exchange_weak(pos, pos + bytes, Relaxed, Relaxed) {
                Ok(_) => return (pos, bytes as usize),
                Err(now) => pos = now,
            }
        }
    }

    /// The same, for all `wanted` bytes or none.
    fn take_all(&self, size: u64, wanted: usize) -> Option<u64> {
        let fits = |pos: u64| {
            let end = pos.checked_add(wanted as u64)?;
            (wanted > 0 && wanted as u64 <= MAX_CALL && end <= size).then_some(end)
        };
        self.position.fetch_update(Relaxed, Relaxed, fits).ok()
    }

    /// Handles the result of a transfer of bytes that were taken.
    #[inline]
    fn moved(&self, pos: u64, bytes: usize, result: Result<(), Error>) -> io::Result<usize> {
        match result {
            Ok(()) => Ok(bytes),
            Err(error) => Err(self.give_back(pos, bytes, error)),
        }
    }

    #[cold]
    fn give_back(&self, pos: u64, bytes: usize, error: Error) -> io::Error {
        // Unchanged if another call has moved it since.
        let _ = self.position.compare_exchange(pos + bytes as u64, pos, Relaxed, Relaxed);
        io_error(error)
    }
}

impl Read for &Handle {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (pos, bytes) = self.description.take(self.device.size(), buffer.len());
        if bytes == 0 {
            return Ok(0);
        }
        self.description.moved(pos, bytes, self.device.read_at(&mut buffer[..bytes], pos))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let most = buffers.len().min(MAX_SEGMENTS);
        let bytes = buffers[..most].iter().map(|b| b.len()).sum();
        let Some(pos) = self.description.take_all(self.device.size(), bytes) else {
            let first = buffers.iter_mut().find(|b| !b.is_empty());
            return first.map_or(Ok(0), |buffer| self.read(buffer));
        };
        self.description.moved(pos, bytes, self.device.read_vectored_at(&mut buffers[..most], pos))
    }
}

impl Write for &Handle {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let (pos, bytes) = self.description.take(self.device.size(), data.len());
        if bytes == 0 {
            return Ok(0);
        }
        self.description.moved(pos, bytes, self.device.write_at(&data[..bytes], pos))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let most = buffers.len().min(MAX_SEGMENTS);
        let bytes = buffers[..most].iter().map(|b| b.len()).sum();
        let Some(pos) = self.description.take_all(self.device.size(), bytes) else {
            let first = buffers.iter().find(|b| !b.is_empty());
            return first.map_or(Ok(0), |data| self.write(data));
        };
        self.description.moved(pos, bytes, self.device.write_vectored_at(&buffers[..most], pos))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush().map_err(io_error)
    }
}

impl Seek for &Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let size = self.device.size();
        let target = |now: u64| match to {
            SeekFrom::Start(pos) => Some(pos),
            SeekFrom::Current(by) => now.checked_add_signed(by),
            SeekFrom::End(by) => size.checked_add_signed(by),
        };
        let before = self.description.position.fetch_update(Relaxed, Relaxed, target);
        before.ok().and_then(target).ok_or_else(|| seek_error(to))
    }
}

impl Read for Handle {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl Write for Handle {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Write::flush(&mut &*self)
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
