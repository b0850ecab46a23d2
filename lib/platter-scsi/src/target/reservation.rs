//! Persistent reservations (SPC-4): initiator ports register keys, and one of them, or all, may hold the unit.
//!
//! Registrations are kept as long as the target, not over a restart (PTPL_C is 0).

use super::{Handler, Nexus, Outcome, State, Target, TaskId};
use crate::cdb::{self, Cdb, Command};
use crate::sense::{Failure, Key};
use crate::unit::{Response, Status, at_field, changes_medium, field, invalid, invalid_parameter, within};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const HANDLERS: &[(&Command, Handler)] = &[
    (&cdb::PERSISTENT_RESERVE_IN_READ_KEYS, report),
    (&cdb::PERSISTENT_RESERVE_IN_READ_RESERVATION, report),
    (&cdb::PERSISTENT_RESERVE_IN_REPORT_CAPABILITIES, report),
    (&cdb::PERSISTENT_RESERVE_IN_READ_FULL_STATUS, report),
    (&cdb::PERSISTENT_RESERVE_OUT_REGISTER, change),
    (&cdb::PERSISTENT_RESERVE_OUT_RESERVE, change),
    (&cdb::PERSISTENT_RESERVE_OUT_RELEASE, change),
    (&cdb::PERSISTENT_RESERVE_OUT_CLEAR, change),
    (&cdb::PERSISTENT_RESERVE_OUT_PREEMPT, change),
    (&cdb::PERSISTENT_RESERVE_OUT_PREEMPT_AND_ABORT, change),
    (&cdb::PERSISTENT_RESERVE_OUT_REGISTER_AND_IGNORE_EXISTING_KEY, change),
];

const PREEMPTED: (u8, u8) = (0x2a, 0x03);
const RELEASED: (u8, u8) = (0x2a, 0x04);
const REGISTRATIONS_PREEMPTED: (u8, u8) = (0x2a, 0x05);
const INVALID_RELEASE: Failure = Failure::new(Key::ILLEGAL_REQUEST, 0x26, 0x04);

/// Most registrations; further ones fail with INSUFFICIENT REGISTRATION RESOURCES.
const MAX_REGISTRATIONS: usize = 256;

/// What a command does, as reservations see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It is allowed whatever the reservation.
    Free,
    /// It reads the medium or parameters.
    Read,
    /// It changes the medium or parameters.
    Write,
}

impl Access {
    pub(super) fn of(cdb: &Cdb) -> Access {
        const WRITES: [u8; 4] = [
            cdb::SYNCHRONIZE_CACHE_10.opcode,
            cdb::SYNCHRONIZE_CACHE_16.opcode,
            cdb::MODE_SELECT_6.opcode,
            cdb::MODE_SELECT_10.opcode,
        ];
        const READS: [u8; 9] = [
            cdb::READ_6.opcode,
            cdb::READ_10.opcode,
            cdb::READ_12.opcode,
            cdb::READ_16.opcode,
            cdb::VERIFY_10.opcode,
            cdb::VERIFY_12.opcode,
            cdb::VERIFY_16.opcode,
            cdb::MODE_SENSE_6.opcode,
            cdb::MODE_SENSE_10.opcode,
        ];
        let opcode = cdb.command().opcode;
        if opcode == cdb::START_STOP_UNIT.opcode {
            return if field(cdb, "START") == 0 { Access::Write } else { Access::Free };
        }
        if changes_medium(cdb.command()) || WRITES.contains(&opcode) {
            return Access::Write;
        }
        if READS.contains(&opcode) { Access::Read } else { Access::Free }
    }
}

/// The type of a reservation, by its code in TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Type(u8);

impl Type {
    /// Write exclusive 1, exclusive access 3, the same for registrants only 5 and 6, for all registrants 7 and 8.
    const KNOWN: [u8; 6] = [1, 3, 5, 6, 7, 8];

    fn excludes_reads(self) -> bool {
        matches!(self.0, 3 | 6 | 8)
    }

    fn admits_registrants(self) -> bool {
        self.0 >= 5
    }

    fn is_held_by_all(self) -> bool {
        self.0 >= 7
    }
}

/// Port and key of an initiator.
#[derive(Clone, Debug)]
struct Registration {
    port: Arc<str>,
    key: u64,
}

/// A reservation: its type, and the holder; with types for all registrants, the one that made it.
#[derive(Clone, Debug)]
struct Reservation {
    kind: Type,
    holder: Arc<str>,
}

/// Registrations, and the reservation if there is one.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    generation: u32,
    registered: Vec<Registration>,
    held: Option<Reservation>,
}

impl Reservations {
    /// The initiator ports that are registered, with their keys.
    pub fn keys(&self) -> Vec<(String, u64)> {
        self.registered.iter().map(|one| (String::from(&*one.port), one.key)).collect()
    }

    /// The TYPE code of the reservation, and the port that has made it.
    pub fn holder(&self) -> Option<(u8, &str)> {
        self.held.as_ref().map(|held| (held.kind.0, &*held.holder))
    }

    fn key_of(&self, port: &str) -> Option<u64> {
        self.registered.iter().find(|one| *one.port == *port).map(|one| one.key)
    }

    fn holds(&self, port: &str) -> bool {
        self.held.as_ref().is_some_and(|held| match held.kind.is_held_by_all() {
            true => self.key_of(port).is_some(),
            false => *held.holder == *port,
        })
    }

    /// Whether a command of this port fails with RESERVATION CONFLICT.
    pub(super) fn forbids(&self, port: &str, access: Access) -> bool {
        let Some(held) = &self.held else { return false };
        if self.holds(port) || held.kind.admits_registrants() && self.key_of(port).is_some() {
            return false;
        }
        access == Access::Write || access == Access::Read && held.kind.excludes_reads()
    }

    fn data(&self, service_action: u8) -> Vec<u8> {
        let mut body: Vec<u8> = Vec::new();
        match service_action {
            0 => self.registered.iter().for_each(|one| body.extend(one.key.to_be_bytes())),
            1 => {
                if let Some(held) = &self.held {
                    let key = if held.kind.is_held_by_all() { None } else { self.key_of(&held.holder) };
                    body.extend(key.unwrap_or(0).to_be_bytes());
                    body.extend([0, 0, 0, 0, 0, held.kind.0, 0, 0]);
                }
            }
            _ => self.registered.iter().for_each(|one| body.extend(self.full_status(one))),
        }
        [&self.generation.to_be_bytes()[..], &(body.len() as u32).to_be_bytes(), &body].concat()
    }

    fn full_status(&self, one: &Registration) -> Vec<u8> {
        let holds = self.holds(&one.port);
        let kind = self.held.as_ref().filter(|_| holds).map_or(0, |held| held.kind.0);
        // TransportID of iSCSI with the initiator port: name, separator and ISID, ended by a zero byte and padded.
        let mut id = one.port.as_bytes().to_vec();
        id.resize((id.len() + 1).next_multiple_of(4).max(20), 0);
        let mut transport = vec![0x45, 0];
        transport.extend((id.len() as u16).to_be_bytes());
        transport.extend(id);
        let mut status = one.key.to_be_bytes().to_vec();
        status.extend([0, 0, 0, 0, u8::from(holds), kind, 0, 0, 0, 0]);
        // RELATIVE TARGET PORT IDENTIFIER: the only one.
        status.extend(1u16.to_be_bytes());
        status.extend((transport.len() as u32).to_be_bytes());
        status.extend(transport);
        status
    }

    /// Removes the registration of a port, and the reservation if that ends with it. Returns whether it did, with its
    /// type.
    fn unregister(&mut self, port: &str) -> Option<Type> {
        let held = self.held.clone();
        self.registered.retain(|one| *one.port != *port);
        let held = held?;
        let ends = match held.kind.is_held_by_all() {
            true => self.registered.is_empty(),
            false => *held.holder == *port,
        };
        if ends {
            self.held = None;
        }
        ends.then_some(held.kind)
    }
}

const CONFLICT: Outcome = Outcome::Respond(Response::of(Status::ReservationConflict));
const GOOD: Outcome = Outcome::Respond(Response::GOOD);

fn report(target: &mut Target, _: (TaskId, Nexus), cdb: &Cdb, _: &[u8]) -> Result<Outcome, Failure> {
    let action = cdb.command().service_action.unwrap_or_default();
    let data = match action {
        // Length 8; TMV, and the mask of all types.
        2 => vec![0, 8, 0, 0x80, 0xea, 0x01, 0, 0],
        _ => target.reservations.data(action),
    };
    Ok(Outcome::Respond(within(cdb, data)))
}

/// A PERSISTENT RESERVE OUT whose parameters have been looked at.
struct Order {
    id: TaskId,
    nexus: Nexus,
    port: Arc<str>,
    key: u64,
    action_key: u64,
    kind: Type,
}

fn change(
    target: &mut Target,
    (id, nexus): (TaskId, Nexus),
    cdb: &Cdb,
    data: &[u8],
) -> Result<Outcome, Failure> {
    let list = field(cdb, "PARAMETER LIST LENGTH");
    let list_error = at_field(cdb, "PARAMETER LIST LENGTH", Failure::new(Key::ILLEGAL_REQUEST, 0x1a, 0));
    let Some(data) = data.first_chunk::<24>().filter(|_| list == 24) else { return Err(list_error) };
    // SPEC_I_PT, ALL_TG_PT and APTPL.
    if data[20] & 0x0d != 0 {
        return Err(invalid_parameter(0x26, 20));
    }
    let number = |at: usize| data[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let Some(port) = target.ports.get(&nexus).map(|port| Arc::clone(&port.name)) else {
        return Ok(CONFLICT);
    };
    let kind = Type(field(cdb, "TYPE") as u8);
    let order = Order { id, nexus, port, key: number(0), action_key: number(8), kind };
    let action = cdb.command().service_action.unwrap_or_default();
    if matches!(action, 0 | 6) {
        return register(target, &order, action == 6);
    }
    if target.reservations.key_of(&order.port) != Some(order.key) {
        return Ok(CONFLICT);
    }
    if action != 3 {
        if field(cdb, "SCOPE") != 0 {
            return Err(invalid(cdb, "SCOPE"));
        }
        if !Type::KNOWN.contains(&kind.0) {
            return Err(invalid(cdb, "TYPE"));
        }
    }
    match action {
        1 => Ok(reserve(target, &order)),
        2 => release(target, &order),
        3 => Ok(clear(target, &order)),
        _ => preempt(target, &order, action == 5),
    }
}

fn register(target: &mut Target, order: &Order, ignore: bool) -> Result<Outcome, Failure> {
    let all = &mut target.reservations;
    let known = all.key_of(&order.port);
    if !ignore && known.unwrap_or(0) != order.key {
        return Ok(CONFLICT);
    }
    match (known, order.action_key) {
        (None, 0) => return Ok(GOOD),
        (None, _) if all.registered.len() >= MAX_REGISTRATIONS => {
            return Err(Failure::new(Key::ILLEGAL_REQUEST, 0x55, 0x04));
        }
        (None, key) => all.registered.push(Registration { port: Arc::clone(&order.port), key }),
        (Some(_), 0) => {
            let ended = all.unregister(&order.port);
            if ended.is_some_and(Type::admits_registrants) {
                target.attend_registered(RELEASED, order.nexus);
            }
        }
        (Some(_), key) => {
            all.registered.iter_mut().filter(|one| one.port == order.port).for_each(|one| one.key = key);
        }
    }
    target.reservations.advance();
    Ok(GOOD)
}

fn reserve(target: &mut Target, order: &Order) -> Outcome {
    let all = &mut target.reservations;
    match &all.held {
        Some(held) if !(all.holds(&order.port) && held.kind == order.kind) => CONFLICT,
        Some(_) => GOOD,
        None => {
            all.held = Some(Reservation { kind: order.kind, holder: Arc::clone(&order.port) });
            GOOD
        }
    }
}

fn release(target: &mut Target, order: &Order) -> Result<Outcome, Failure> {
    let all = &mut target.reservations;
    let Some(held) = all.held.clone().filter(|_| all.holds(&order.port)) else { return Ok(GOOD) };
    if held.kind != order.kind {
        return Err(INVALID_RELEASE);
    }
    all.held = None;
    if held.kind.admits_registrants() {
        target.attend_registered(RELEASED, order.nexus);
    }
    Ok(GOOD)
}

fn clear(target: &mut Target, order: &Order) -> Outcome {
    target.attend_registered(PREEMPTED, order.nexus);
    let all = &mut target.reservations;
    all.registered.clear();
    all.held = None;
    all.advance();
    GOOD
}

/// Removes registrations by their key; takes the reservation over if the holder is among them.
fn preempt(target: &mut Target, order: &Order, aborts: bool) -> Result<Outcome, Failure> {
    let all = &target.reservations;
    let held = all.held.clone();
    let by_all = held.as_ref().is_some_and(|held| held.kind.is_held_by_all());
    if order.action_key == 0 && !by_all {
        return Err(invalid_parameter(0x26, 8));
    }
    let holder_key = held.as_ref().and_then(|held| all.key_of(&held.holder));
    let takes = match by_all {
        true => order.action_key == 0,
        false => held.is_some() && holder_key == Some(order.action_key),
    };
    let goes = |one: &Registration| one.key == order.action_key || by_all && order.action_key == 0;
    let matching = all.registered.iter().filter(|one| goes(one)).count();
    if matching == 0 {
        return Ok(CONFLICT);
    }
    let removed: Vec<Arc<str>> = all
        .registered
        .iter()
        .filter(|one| goes(one) && one.port != order.port)
        .map(|one| Arc::clone(&one.port))
        .collect();
    let all = &mut target.reservations;
    let mut ended = None;
    for port in &removed {
        ended = all.unregister(port).or(ended);
    }
    if takes {
        all.held = Some(Reservation { kind: order.kind, holder: Arc::clone(&order.port) });
        ended = held.map(|held| held.kind);
    }
    all.advance();
    let is_removed = |name: &str| removed.iter().any(|port| **port == *name);
    let preempted: Vec<Nexus> =
        target.ports.iter().filter(|(_, port)| is_removed(&port.name)).map(|(nexus, _)| *nexus).collect();
    preempted.iter().for_each(|nexus| target.attend(*nexus, REGISTRATIONS_PREEMPTED));
    if ended.is_some_and(|kind| kind.admits_registrants() && kind != order.kind) {
        target.attend_registered(RELEASED, order.nexus);
    }
    if !aborts {
        return Ok(GOOD);
    }
    let theirs = target.tasks.of(|task| preempted.contains(&task.nexus) && task.state != State::Answered);
    let running = target.abort(&theirs);
    if running.is_empty() {
        return Ok(GOOD);
    }
    target.tasks.answer_after(order.id, running);
    Ok(Outcome::Wait(order.id))
}

impl Reservations {
    fn advance(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

impl Target {
    /// Adds a unit attention for all nexuses whose port is registered, but one.
    fn attend_registered(&mut self, code: (u8, u8), except: Nexus) {
        let registered = |name: &str| self.reservations.key_of(name).is_some();
        let all = self.ports.iter_mut().filter(|(nexus, port)| **nexus != except && registered(&port.name));
        all.for_each(|(_, port)| port.attend(code));
    }
}
