//! What each unit of the initiator asks for.

use super::Session;
use super::outbox::Body;
use super::slots::State;
use super::units::Place;
use crate::clients::add_alone;
use crate::iscsi::names;
use crate::iscsi::unit::{MAX_TRANSFER, is_unit_0};
use platter_remote::iscsi::text;
use platter_remote::iscsi::wire::{Header, NO_TAG, at, flag, opcode, reject};
use platter_scsi::cdb::{COMPARE_AND_WRITE, WRITE_SAME_10, WRITE_SAME_16};
use platter_scsi::sense::{Failure, Key};
use platter_scsi::target::{Function, Managed};
use platter_scsi::unit::{Response, Status};

/// Task management functions, and responses to them (RFC 7143, sections 11.5 and 11.6).
const ABORT_TASK: u8 = 1;
const ABORT_TASK_SET: u8 = 2;
const CLEAR_TASK_SET: u8 = 4;
const LOGICAL_UNIT_RESET: u8 = 5;
const TARGET_WARM_RESET: u8 = 6;
const TASK_REASSIGN: u8 = 8;
const COMPLETE: u8 = 0;
const NO_TASK: u8 = 1;
const NO_UNIT: u8 = 2;
const NO_REASSIGNMENT: u8 = 4;
const NOT_SUPPORTED: u8 = 5;
const REJECTED: u8 = 255;

/// Most functions of a session that wait for commands to end.
const MAX_FUNCTIONS: usize = 64;

/// WRITE ERROR - NOT ENOUGH UNSOLICITED DATA, which RFC 7143, 11.4.7.2 calls an incorrect amount of data.
const INCORRECT_AMOUNT: Failure = Failure::new(Key::ABORTED_COMMAND, 0x0c, 0x0d);

/// Largest text of a request.
const MAX_TEXT: usize = 8 << 10;

impl Session<'_> {
    /// Begins a unit whose header has arrived; returns where its data goes.
    pub(super) fn begin_unit(&mut self, header: &Header) -> Place {
        if header.opcode() == opcode::COMMAND
            && header.is_immediate()
            && self.slots.open() >= self.window as usize
        {
            self.reject(header, reject::TOO_MANY_IMMEDIATE);
            return Place::Ignored;
        }
        let numbered = !matches!(header.opcode(), opcode::DATA_OUT | opcode::SNACK);
        if numbered && !header.is_immediate() && !self.is_next(header) {
            return Place::Ignored;
        }
        match header.opcode() {
            opcode::COMMAND => self.begin_command(header),
            opcode::DATA_OUT => self.begin_data(header),
            opcode::NOP_OUT => Place::Bytes(Vec::new()),
            opcode::TEXT if header.data_bytes() <= MAX_TEXT => Place::Bytes(Vec::new()),
            opcode::MANAGEMENT | opcode::LOGOUT => Place::Nowhere,
            opcode::TEXT | opcode::LOGIN => {
                self.reject(header, reject::PROTOCOL);
                Place::Nowhere
            }
            _ => {
                self.reject(header, reject::NOT_SUPPORTED);
                Place::Nowhere
            }
        }
    }

    /// Whether a request that has a place in the order of commands comes now. Those outside the window are ignored.
    fn is_next(&mut self, header: &Header) -> bool {
        let ahead = header.get(at::CMD_SN).wrapping_sub(self.exp_cmd_sn) as i32;
        let room = self.max_cmd_sn.wrapping_sub(self.exp_cmd_sn).wrapping_add(1) as i32;
        if ahead == 0 && room > 0 {
            self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
            return true;
        }
        if (1..room).contains(&ahead) {
            // There is only this connection on which it could still come.
            self.end("a command is missing before the one that came");
        }
        false
    }

    /// A unit is complete, with its data.
    pub(super) fn complete_unit(&mut self, header: Header, place: Place) {
        match (header.opcode(), place) {
            (opcode::COMMAND | opcode::DATA_OUT, Place::Slot(slot)) => self.received(slot, &header),
            (opcode::NOP_OUT, Place::Bytes(data)) => self.answer_ping(&header, data),
            (opcode::TEXT, Place::Bytes(data)) => self.answer_text(&header, &data),
            (opcode::MANAGEMENT, Place::Nowhere) => self.manage(&header),
            (opcode::LOGOUT, Place::Nowhere) => {
                self.logout = Some(header);
                self.end("the initiator logged out");
            }
            _ => {}
        }
    }

    fn begin_command(&mut self, header: &Header) -> Place {
        let writes = header.flags() & flag::WRITE != 0;
        let immediate = header.data_bytes() as u32;
        let expected = header.get(at::EXPECTED_LENGTH);
        let unsolicited = if writes { self.params.first_burst.min(expected) } else { 0 };
        if immediate > unsolicited || immediate > 0 && !self.params.immediate_data {
            self.end("a command brought more data along than was agreed on");
            return Place::Nowhere;
        }
        if !header.is_final() && self.params.initial_r2t {
            self.end("a command announced data that no R2T has asked for");
            return Place::Nowhere;
        }
        let Some(index) = self.slots.take(header, expected) else {
            // There is room for one, or the header would not have been taken.
            self.end("there is no room for a command");
            return Place::Nowhere;
        };
        let cdb = self.slots.get(index).cdb;
        let needed = if writes { self.attached.target().unit().data_out_bytes(&cdb) } else { 0 };
        let wanted = needed.min(u64::from(expected));
        // A transfer that is too long is refused by the target; there never is memory for it.
        let wanted = if wanted > MAX_TRANSFER { 0 } else { wanted as u32 };
        let buffer = if wanted > 0 { self.buffers.take(wanted as usize) } else { None };
        let slot = self.slots.get(index);
        (slot.needed, slot.wanted, slot.burst_end) = (needed, wanted, unsolicited);
        if wanted > 0 && buffer.is_none() {
            (slot.wanted, slot.refused) = (0, Some(Response::of(Status::TaskSetFull)));
        }
        slot.data = buffer;
        if writes && needed != u64::from(expected) {
            self.fit(index);
        }
        Place::Slot(index)
    }

    /// A command comes with another length of data than its own: a write is carried out as far as there is data, and the
    /// response says how much was left over; others that would mean something else are refused.
    fn fit(&mut self, index: u16) {
        let target = self.attached.target();
        let slot = self.slots.get(index);
        let expected = u64::from(slot.expected);
        if slot.cdb[0] == COMPARE_AND_WRITE.opcode
            || [WRITE_SAME_10.opcode, WRITE_SAME_16.opcode].contains(&slot.cdb[0])
        {
            slot.refused = Some(target.unit().refuse(target.unit().wrong_length(&slot.cdb)));
        } else if slot.needed > expected
            && let Some(shorter) = target.unit().shortened(&slot.cdb, expected)
        {
            slot.cdb[..shorter.bytes().len()].copy_from_slice(shorter.bytes());
        }
    }

    fn begin_data(&mut self, header: &Header) -> Place {
        let found = self.slots.receiving(header.task_tag(), header.get(at::TRANSFER_TAG));
        // Data of a command that was aborted is forgotten.
        let Some(index) = found else { return Place::Nowhere };
        let slot = self.slots.get(index);
        let (offset, bytes) = (header.get(at::BUFFER_OFFSET), header.data_bytes() as u64);
        let in_order = offset == slot.offset && header.get(at::DATA_SN) == slot.data_sn;
        if !in_order || u64::from(offset) + bytes > u64::from(slot.burst_end) {
            self.fail_transfer(index);
            return Place::Nowhere;
        }
        slot.data_sn = slot.data_sn.wrapping_add(1);
        Place::Slot(index)
    }

    /// Data of a command, with the command or after it, is there.
    fn received(&mut self, index: u16, header: &Header) {
        let slot = self.slots.get(index);
        slot.offset += header.data_bytes() as u32;
        if !header.is_final() {
            return;
        }
        if slot.transfer_tag != NO_TAG && slot.offset < slot.burst_end {
            return self.fail_transfer(index);
        }
        if slot.offset < slot.wanted {
            return self.ask_for_data(index);
        }
        slot.state = State::Arrived;
        self.arrived.push_back(index);
    }

    /// Data of a command is missing or was not asked for: the command fails, and what still comes for it is forgotten.
    fn fail_transfer(&mut self, index: u16) {
        let response = self.attached.target().unit().refuse(INCORRECT_AMOUNT);
        let slot = self.slots.get(index);
        (slot.refused, slot.state) = (Some(response), State::Arrived);
        self.arrived.push_back(index);
    }

    /// Sends an R2T for the next burst.
    fn ask_for_data(&mut self, index: u16) {
        let tag = self.slots.new_transfer_tag(index);
        let max_burst = self.params.max_burst;
        let slot = self.slots.get(index);
        let length = (slot.wanted - slot.offset).min(max_burst);
        (slot.burst_end, slot.data_sn) = (slot.offset + length, 0);
        let mut header = Header::new(opcode::R2T, flag::FINAL)
            .with(at::TASK_TAG, slot.tag)
            .with(at::TRANSFER_TAG, tag)
            .with(at::DATA_SN, slot.r2ts)
            .with(at::BUFFER_OFFSET, slot.offset)
            .with(at::DESIRED_LENGTH, length);
        header.0[8..16].copy_from_slice(&slot.lun.to_be_bytes());
        slot.r2ts += 1;
        self.push_unnumbered(header, Body::Nothing);
    }

    fn answer_ping(&mut self, header: &Header, mut data: Vec<u8>) {
        // The answer to a NOP-In, of which none is sent.
        if header.task_tag() == NO_TAG {
            return;
        }
        data.truncate(self.params.max_send as usize);
        let mut answer = Header::new(opcode::NOP_IN, flag::FINAL)
            .with(at::TASK_TAG, header.task_tag())
            .with(at::TRANSFER_TAG, NO_TAG);
        answer.0[8..16].copy_from_slice(&header.0[8..16]);
        self.push(answer, Body::Bytes(data), None);
    }

    fn answer_text(&mut self, header: &Header, data: &[u8]) {
        let Ok(pairs) = text::parse(data) else { return self.reject(header, reject::PROTOCOL) };
        if header.flags() & flag::CONTINUE != 0 || !header.is_final() {
            return self.reject(header, reject::PROTOCOL);
        }
        if self.texts.is_continued_by(header) {
            return match self.texts.go_on(header, self.params.max_send) {
                Some(unit) => self.push_text(header, unit),
                None => self.reject(header, reject::PROTOCOL),
            };
        }
        let mut answer = Vec::new();
        let prefix = &self.options.iscsi.prefix;
        let own = names::target_name(prefix, self.served.name()).unwrap_or_default();
        for (key, value) in &pairs {
            match key.as_str() {
                // In a session with a target, no value means this target; others are not told of.
                "SendTargets" if value.is_empty() || *value == own => {
                    let address = self.address.as_deref();
                    answer.extend(names::send_targets(&self.shared.devices, prefix, address, |name| {
                        name == own
                    }));
                }
                "SendTargets" => text::push(&mut answer, key, "Reject"),
                _ => text::push(&mut answer, key, "NotUnderstood"),
            }
        }
        let unit = self.texts.begin(answer, self.params.max_send);
        self.push_text(header, unit);
    }

    fn push_text(&mut self, request: &Header, (unit, data): (Header, Vec<u8>)) {
        self.push(unit.with(at::TASK_TAG, request.task_tag()), Body::Bytes(data), None);
    }

    /// Answers a logout when everything else has been answered. `false`: there was none.
    pub(super) fn answer_logout(&mut self) -> bool {
        let Some(header) = self.logout.take() else { return false };
        // Closing the session or this connection is the same; recovery of another connection is not supported.
        let recovers = header.flags() & 0x7f == 2;
        let answer = Header::new(opcode::LOGOUT_RESPONSE, flag::FINAL)
            .with_byte(2, if recovers { 2 } else { 0 })
            .with(at::TASK_TAG, header.task_tag());
        self.push(answer, Body::Nothing, None);
        true
    }

    fn manage(&mut self, header: &Header) {
        let function = header.flags() & 0x7f;
        let of_unit = matches!(function, ABORT_TASK_SET | CLEAR_TASK_SET | LOGICAL_UNIT_RESET);
        if of_unit && !is_unit_0(header.lun()) {
            return self.managed(header.task_tag(), NO_UNIT);
        }
        if self.functions.len() >= MAX_FUNCTIONS {
            return self.managed(header.task_tag(), REJECTED);
        }
        let asked = match function {
            ABORT_TASK => match self.slots.find(header.get(at::REFERENCED_TAG)) {
                None => return self.managed(header.task_tag(), NO_TASK),
                Some(slot) if self.slots.get(slot).is_before_target() => {
                    self.drop_slot(slot);
                    return self.managed(header.task_tag(), COMPLETE);
                }
                Some(slot) => Function::AbortTask(u64::from(slot)),
            },
            ABORT_TASK_SET => Function::AbortTaskSet,
            CLEAR_TASK_SET => Function::ClearTaskSet,
            LOGICAL_UNIT_RESET | TARGET_WARM_RESET => Function::Reset,
            TASK_REASSIGN => return self.managed(header.task_tag(), NO_REASSIGNMENT),
            _ => return self.managed(header.task_tag(), NOT_SUPPORTED),
        };
        if function != ABORT_TASK {
            let own = self.slots.in_states(&[State::Receiving, State::Arrived]);
            own.into_iter().for_each(|slot| self.drop_slot(slot));
        }
        self.next_token += 1;
        let token = self.next_token;
        let managed = self.attached.target().manage(self.attached.nexus(), asked, token);
        match managed {
            Managed::Wait => self.functions.push((token, header.task_tag())),
            Managed::Complete => self.managed(header.task_tag(), COMPLETE),
            Managed::NoTask => self.managed(header.task_tag(), NO_TASK),
        }
    }

    /// A task management function is complete.
    pub(super) fn function_complete(&mut self, token: u64) {
        if let Some(at) = self.functions.iter().position(|(known, _)| *known == token) {
            let (_, tag) = self.functions.swap_remove(at);
            self.managed(tag, COMPLETE);
        }
    }

    fn managed(&mut self, tag: u32, response: u8) {
        let header = Header::new(opcode::MANAGEMENT_RESPONSE, flag::FINAL)
            .with_byte(2, response)
            .with(at::TASK_TAG, tag);
        self.push(header, Body::Nothing, None);
    }

    /// Tells the initiator that a unit was not carried out.
    fn reject(&mut self, header: &Header, reason: u8) {
        add_alone(&self.client.counts.errors, 1);
        let answer = Header::new(opcode::REJECT, flag::FINAL).with_byte(2, reason).with(at::TASK_TAG, NO_TAG);
        self.push(answer, Body::Bytes(header.0.to_vec()), None);
    }
}
