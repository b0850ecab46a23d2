//! NVMe commands to the controllers and namespaces of the system (`linux/nvme_ioctl.h`): one at a time, by ioctls ([`Node`]);
//! and, with the feature `nvme-disk`, namespaces as disks (`NvmeDisk`).

#[cfg(feature = "nvme-disk")]
mod disk;
mod ioctl;

#[cfg(feature = "nvme-disk")]
pub use disk::{NvmeDisk, NvmeError, NvmeOptions};

use platter_block::command::{CommandSet, MAX_BYTES, Outcome};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// Most bytes of data of a command: what one request of the kernel can have at the very most.
pub const MAX_DATA: usize = 64 << 20;

/// Data of a command.
#[derive(Debug)]
pub enum Data<'a> {
    /// None.
    None,
    /// To be filled by the controller.
    In(&'a mut [u8]),
    /// For the controller.
    Out(&'a [u8]),
}

/// A controller (`/dev/nvme0`) or a namespace (`/dev/nvme0n1`, `/dev/ng0n1`) of the system.
#[derive(Debug)]
pub struct Node {
    file: File,
}

impl Node {
    /// Opens a node. The kernel lets a handle without write access send only commands that change nothing, if the process
    /// may not administer the system.
    ///
    /// # Errors
    /// Those of opening the file, and `InvalidInput` for a partition, as commands would reach all of its namespace. That a file
    /// is no NVMe device is seen by the first command, which ends with `ENOTTY`.
    pub fn open(path: &Path, write: bool) -> io::Result<Node> {
        if is_partition(path)? {
            let why = "a partition; commands reach all of its namespace, so name that";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let file = File::options().read(true).write(write).open(path)?;
        Ok(Node { file })
    }

    #[cfg(feature = "nvme-disk")]
    fn into_file(self) -> File {
        self.file
    }

    /// The identifier of the namespace.
    ///
    /// # Errors
    /// `ENOTTY` for a controller, or for what is no NVMe device.
    pub fn namespace(&self) -> io::Result<u32> {
        ioctl::namespace(&self.file)
    }

    /// Sends a submission queue entry of 64 bytes, whose command identifier and pointers the kernel sets, and waits for the
    /// answer. `timeout` is counted by the kernel in milliseconds; `None`: its own (60 s for admin commands, 30 s for others).
    /// After a timeout the kernel aborts the command or resets the controller.
    ///
    /// The data must be as long as the command says: the kernel does not look at it, and a controller transfers as much as
    /// the command asks for. Memory of the caller is safe from a longer transfer, as data passes through pages of its own;
    /// other memory of the system may not be.
    ///
    /// # Errors
    /// Commands that are not of NVMe; data against the direction in the low two bits of the operation code, or of more than
    /// [`MAX_DATA`]; what the kernel returns: `EACCES` (not permitted), `EINVAL` (refused, fused commands among others), `ENOTTY`
    /// (no NVMe device), `EINTR` (interrupted, or timed out). What the controller answers is in the outcome.
    pub fn send(
        &self,
        set: CommandSet,
        entry: &[u8; MAX_BYTES],
        data: Data<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<Outcome> {
        let is_admin = match set {
            CommandSet::Nvme => false,
            CommandSet::NvmeAdmin => true,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{set} command to an NVMe device"),
                ));
            }
        };
        check(entry[0], &data)?;
        let timeout_ms = timeout.map_or(0, |timeout| timeout.as_millis().clamp(1, u32::MAX.into()) as u32);
        let (len, out): (usize, &[u8]) = match &data {
            Data::None => (0, &[]),
            Data::In(to) => (to.len(), &[]),
            Data::Out(from) => (from.len(), from),
        };
        let mut pages = ioctl::Pages::new(len);
        pages.bytes()[..out.len()].copy_from_slice(out);
        let outcome = ioctl::send(&self.file, is_admin, entry, &mut pages, timeout_ms)?;
        if let Data::In(to) = data {
            to.copy_from_slice(&pages.bytes()[..len]);
        }
        Ok(outcome)
    }
}

/// The kernel takes the direction from bit 0 of the operation code: set, the controller reads the memory.
fn check(opcode: u8, data: &Data<'_>) -> io::Result<()> {
    let wrong = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    let (is_out, len) = match data {
        Data::None => return Ok(()),
        Data::In(to) => (false, to.len()),
        Data::Out(from) => (true, from.len()),
    };
    if opcode == 0x7f {
        return wrong(
            "operation code 7fh is of fabrics, whose direction is not in the operation code".to_owned(),
        );
    }
    if is_out != (opcode & 1 == 1) {
        let direction = if is_out { "to" } else { "from" };
        return wrong(format!(
            "data {direction} the controller with operation code {opcode:02x}h, which is for the other way"
        ));
    }
    if len == 0 || len > MAX_DATA {
        return wrong(format!("{len} bytes of data; a command has 1 to {MAX_DATA}, or none"));
    }
    Ok(())
}

/// Whether a node is a block device that the kernel lists as a partition.
fn is_partition(path: &Path) -> io::Result<bool> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.file_type().is_block_device() {
        return Ok(false);
    }
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    Ok(Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_against_the_direction_of_the_operation_code_is_refused() {
        let (mut bytes, entry) = ([0; 8], |opcode| [opcode; 1]);
        for (opcode, is_in) in [(0x01, true), (0x02, false), (0x0c, false), (0x7f, false)] {
            let data = if is_in { Data::In(&mut bytes) } else { Data::Out(&[0; 8]) };
            assert!(check(entry(opcode)[0], &data).is_err(), "{opcode:02x}h");
        }
        assert!(check(0x02, &Data::In(&mut bytes)).is_ok() && check(0x01, &Data::Out(&[1])).is_ok());
        assert!(check(0x00, &Data::None).is_ok() && check(0x01, &Data::Out(&[])).is_err());
    }

    #[test]
    fn what_is_no_nvme_device_says_so_by_its_first_command() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let node = Node::open(file.path(), false).unwrap();
        let mut data = [7; 4096];
        let mut identify = [0; MAX_BYTES];
        (identify[0], identify[40]) = (0x06, 1);
        let error = node.send(CommandSet::NvmeAdmin, &identify, Data::In(&mut data), None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(node.namespace().unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert!(data == [7; 4096]);
        let error = node.send(CommandSet::Scsi, &identify, Data::None, None).unwrap_err();
        assert!(error.to_string().contains("SCSI"));
    }
}
