//! Arrays whose members carry a description of the array: making, finding, opening and removing them.
//!
//! The rules are those of [`platter_stack::array_metadata`]; here they meet devices. An array is opened by the spec
//! `raid(name=NAME, DEVICE, …)` with its members in any order, or by `raid(name=NAME)`, which looks for them on
//! all block devices of the machine ([`search`]). Arrays of Linux' md are read by `md(DEVICE, …)`.
//!
//! ```
//! use platter::raid::{self, Array};
//! use platter::{Access, open};
//! # let dir = tempfile::tempdir()?;
//! # let (a, b) = (dir.path().join("a"), dir.path().join("b"));
//! # let (a, b) = (a.display(), b.display());
//! let members = [format!("file({a}, create=8M)"), format!("file({b}, create=8M)")];
//! let devices = raid::open_members(&members, Access::read_write())?;
//! raid::create(&devices, &Array { name: "data".into(), chunk: 64 << 10, ..Array::default() })?;
//! drop(devices);
//!
//! let disk = open(&format!("raid(name=data, {b}, {a})"), Access::read_write())?;
//! disk.write_at(b"on both", 65533)?;
//! disk.flush()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Arrays whose members describe them
//!
//! Each member of an array carries two records (`array_metadata::Record`): the array's name and number, the member's
//! index, and the numbers of all members, so that errors can name a missing one. What is written when (`create_plan`,
//! `commit_plan`, `wipe_plan`) and which devices form an array (`array_metadata::assemble`) is decided without I/O in
//! `platter-stack`; `raid::create` and `raid::assemble` in the crate `platter` carry the steps out on devices and build
//! the layer over the members' data. `raid::search` looks for members on all block devices or in a directory. Arrays of
//! Linux' md are made (`platter_md::create`, `raid::create_md`) and read in the same way (`superblock::parse`, `assembly::assemble`,
//! `raid::assemble_md`, the layer `md.rs` of `platter-stack`), and not written (docs/md.md).
//!
//! **Invariant:** at any moment, even during a write, the members on disk are either the old array or the new one. A
//! test cuts every change at every sector of every write.

mod assemble;
mod assemble_md;
mod check;
mod create;
mod create_md;
mod erase;
mod error;
mod examine;
mod find;
mod md;

pub use assemble::assemble;
pub use assemble_md::{assemble_array, assemble_md};
pub use check::{Checked, Culprit, Mismatch, Unreadable, check_array};
pub use create::{Array, Mirror, create, create_mirror, default_name, wipe};
pub use create_md::{CreatedMd, MdArray, create_md};
pub use error::RaidError;
pub use examine::{Held, examine, read_slots};
pub(crate) use find::members;
pub use find::{Found, search};
pub use md::MdMember;
pub use platter_md::assembly::Options as MdOptions;
pub use platter_md::layouts::name as md_layout;

use crate::registry::{self, Access, OpenError};
use platter_disk::device::Device;
use platter_stack::array_metadata::Step;

/// Opens devices that are or will be members of an array. The caller checks their signatures: an array has
/// one too.
///
/// # Errors
/// See [`crate::open`].
pub fn open_members<S: AsRef<str>>(specs: &[S], access: Access) -> Result<Vec<Device>, OpenError> {
    specs.iter().map(|spec| registry::open(spec.as_ref(), access)).collect()
}

/// Carries out the steps of a change, each when the one before is done.
fn carry_out(devices: &[Device], steps: &[Step]) -> Result<(), RaidError> {
    for step in steps {
        match step {
            Step::Write { device, offset, bytes } => devices[*device].write_at(bytes, *offset)?,
            Step::Flush { device } => devices[*device].flush()?,
        }
    }
    Ok(())
}
