//! Events as lines in the columns of `blkparse`.
//!
//! Each line: device (major,minor), processor, sequence number, seconds and nanoseconds, process id, action,
//! RWBS, and the fields of the action: `sector + count [process]`, for completions `sector + count [error]`,
//! for unplugs `[process] requests`, for splits `sector / new sector [process]`.

use super::{PROCESS, SECTOR, Stamp};
use platter_block::bio::{Flags, Op};
use platter_block::trace::{Action, Event};

/// The line that names a device.
pub(super) fn name(device: u32, name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{} m   N {name}\n", head(Stamp { device, ..Stamp::default() }))
}

/// The line of an event.
pub(super) fn event(at: Stamp, event: &Event) -> String {
    format!("{} {:>2} {:>3} {}\n", head(at), event.action.letter(), rwbs(event), tail(event))
}

/// The columns up to the process id: `%D %2c %8s %5T.%9t %5p`.
fn head(at: Stamp) -> String {
    let Stamp { device, queue, sequence, ns, .. } = at;
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    format!("  0,{device:<3} {queue:>2} {sequence:>8} {seconds:>5}.{rest:09} {:>5}", at.process())
}

fn tail(event: &Event) -> String {
    let (sector, count) = (event.pos / SECTOR, event.len / SECTOR);
    match event.action {
        Action::Plug => format!("[{PROCESS}]"),
        Action::Unplug | Action::UnplugTimer => format!("[{PROCESS}] {}", event.extra),
        Action::Complete => format!("{sector} + {count} [{}]", event.errno),
        Action::Split => format!("{sector} / {} [{PROCESS}]", event.extra),
        _ => format!("{sector} + {count} [{PROCESS}]"),
    }
}

/// The kind of an I/O in blkparse's letters: a flush before it (F), its direction (R, W, D, or N for none),
/// forced unit access (F), readahead (A), sync (S).
fn rwbs(event: &Event) -> String {
    let mut text = String::with_capacity(5);
    let flush = event.op == Op::Flush || event.flags.intersects(Flags::PREFLUSH | Flags::HARD_BARRIER);
    if flush {
        text.push('F');
    }
    text.push(match event.op {
        Op::Discard => 'D',
        Op::Write | Op::WriteZeroes | Op::Flush => 'W',
        Op::Command => 'N',
        Op::Read if event.len == 0 => 'N',
        Op::Read => 'R',
    });
    let letters = [(Flags::FUA, 'F'), (Flags::READAHEAD, 'A'), (Flags::SYNC, 'S')];
    text.extend(letters.iter().filter(|(flag, _)| event.flags.contains(*flag)).map(|(_, letter)| *letter));
    text
}
