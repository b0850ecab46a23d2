//! Which commands a layer passes on.

use platter_block::command::{Command, Reach};

/// The commands ([`Op::Command`](platter_block::bio::Op::Command)) that a layer passes on to the device below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandRule {
    /// None.
    None,
    /// Those that neither read nor change blocks, such as an inquiry.
    NoBlocks,
    /// Those that change no blocks.
    Reads,
    /// All.
    All,
}

impl CommandRule {
    /// Whether the layer passes a command on.
    pub(super) fn allows(self, command: &Command) -> bool {
        match self {
            CommandRule::None => false,
            CommandRule::NoBlocks => command.reach() == Reach::Nothing,
            CommandRule::Reads => !command.reach().changes(),
            CommandRule::All => true,
        }
    }

    /// The same rule for a layer over a part of the device.
    pub(super) fn of_part(self) -> CommandRule {
        if self == CommandRule::None { self } else { CommandRule::NoBlocks }
    }
}
