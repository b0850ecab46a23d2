//! Lives of several initiators at one target, and reservations case by case.

use super::*;
use crate::sense::Sense;
use crate::unit::Identity;
use alloc::vec;
use platter_block::limits::Limits;
use proptest::prelude::*;

const BLOCK: u64 = 512;

struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

fn target() -> Target {
    let name = || String::from("x");
    let identity = Identity { vendor: name(), product: name(), revision: name(), serial: name() };
    let mut geometry = Geometry::new(64 * BLOCK, Limits::unlimited(BLOCK as u32));
    geometry.features.write_cache = true;
    Target::new(Unit::new(identity, geometry))
}

/// Connects a port, and takes the unit attention of a new one.
fn connect(target: &mut Target, name: &str) -> Nexus {
    let nexus = target.connect(name, Arc::new(Silent));
    assert_eq!(sense_of(&respond(target, nexus, &Cdb::new(&cdb::TEST_UNIT_READY), &[])), (6, POWER_ON));
    nexus
}

fn request<'a>(cdb: &'a Cdb, data_out: &'a [u8]) -> Request<'a> {
    Request { cdb: cdb.bytes(), data_out, attribute: Attribute::Simple, token: 0 }
}

/// The response to a command that is alone; steps succeed.
fn respond(target: &mut Target, nexus: Nexus, cdb: &Cdb, data_out: &[u8]) -> Response {
    match target.begin(nexus, &request(cdb, data_out)) {
        Outcome::Respond(response) => response,
        Outcome::Run(id, _) => {
            assert!(target.end(id));
            target.done()
        }
        Outcome::Wait(_) => panic!("{cdb:?} waits"),
    }
}

fn sense_of(response: &Response) -> (u8, (u8, u8)) {
    assert_eq!(response.status, Status::CheckCondition);
    let sense = Sense::decode(&response.sense).unwrap();
    (sense.key().0, sense.code())
}

fn write(lba: u64, blocks: u64) -> Cdb {
    Cdb::new(&cdb::WRITE_10).with("LOGICAL BLOCK ADDRESS", lba).with("TRANSFER LENGTH", blocks)
}

fn read(lba: u64, blocks: u64) -> Cdb {
    Cdb::new(&cdb::READ_10).with("LOGICAL BLOCK ADDRESS", lba).with("TRANSFER LENGTH", blocks)
}

fn compare(lba: u64, blocks: u64) -> Cdb {
    Cdb::new(&cdb::COMPARE_AND_WRITE)
        .with("LOGICAL BLOCK ADDRESS", lba)
        .with("NUMBER OF LOGICAL BLOCKS", blocks)
}

/// A PERSISTENT RESERVE OUT.
fn reserve_out(
    target: &mut Target,
    nexus: Nexus,
    command: &'static Command,
    kind: u64,
    keys: [u64; 2],
) -> Response {
    let cdb = Cdb::new(command).with("TYPE", kind).with("PARAMETER LIST LENGTH", 24);
    let data = [&keys[0].to_be_bytes()[..], &keys[1].to_be_bytes(), &[0; 8]].concat();
    respond(target, nexus, &cdb, &data)
}

const REGISTER: &Command = &cdb::PERSISTENT_RESERVE_OUT_REGISTER;
const RESERVE: &Command = &cdb::PERSISTENT_RESERVE_OUT_RESERVE;
const RELEASE: &Command = &cdb::PERSISTENT_RESERVE_OUT_RELEASE;
const PREEMPT: &Command = &cdb::PERSISTENT_RESERVE_OUT_PREEMPT;

#[test]
fn the_list_of_commands_is_that_of_the_handlers() {
    let handled: Vec<&str> =
        HANDLERS.iter().flat_map(|table| table.iter()).map(|(command, _)| command.name).collect();
    for command in access::WITH_GROUPS {
        assert!(handled.contains(&command.name), "{}", command.name);
        assert!(!Unit::commands().any(|own| own == *command), "{} is the unit's", command.name);
    }
    // And INQUIRY, to whose data of the unit the target adds.
    assert_eq!(handled.len(), access::WITH_GROUPS.len() + 1);
    assert_eq!(access::WITH_GROUPS[..COMMANDS.len()], *COMMANDS);
}

#[test]
fn access_follows_the_table_of_reservation_types() {
    // Rows: type; then whether a registered and an unregistered port may read and write (SPC-4, reserve types).
    let table = [
        (1, [true, false], [true, false]),
        (3, [false, false], [false, false]),
        (5, [true, true], [true, false]),
        (6, [true, true], [false, false]),
        (7, [true, true], [true, false]),
        (8, [true, true], [false, false]),
    ];
    for (kind, registered, stranger) in table {
        let mut target = target();
        let [holder, other, third] = ["a", "b", "c"].map(|name| connect(&mut target, name));
        for (nexus, key) in [(holder, 1), (other, 2)] {
            assert_eq!(reserve_out(&mut target, nexus, REGISTER, 0, [0, key]).status, Status::Good);
        }
        assert_eq!(reserve_out(&mut target, holder, RESERVE, kind, [1, 0]).status, Status::Good);
        let mut may = |nexus, cdb: Cdb| {
            respond(&mut target, nexus, &cdb, &[0; BLOCK as usize]).status != Status::ReservationConflict
        };
        assert_eq!([may(holder, read(0, 1)), may(holder, write(0, 1))], [true, true]);
        assert_eq!([may(other, read(0, 1)), may(other, write(0, 1))], registered, "type {kind}");
        assert_eq!([may(third, read(0, 1)), may(third, write(0, 1))], stranger, "type {kind}");
        assert!(may(third, Cdb::new(&cdb::TEST_UNIT_READY)));
        let by = if kind >= 7 { other } else { holder };
        let key = if kind >= 7 { 2 } else { 1 };
        assert_eq!(reserve_out(&mut target, by, RELEASE, kind, [key, 0]).status, Status::Good);
        assert_eq!(target.reservations().holder(), None, "type {kind}");
    }
}

#[test]
fn preempting_takes_over_and_tells_the_preempted() {
    let mut target = target();
    let [a, b] = ["a", "b"].map(|name| connect(&mut target, name));
    assert_eq!(reserve_out(&mut target, a, REGISTER, 0, [0, 7]).status, Status::Good);
    assert_eq!(reserve_out(&mut target, b, REGISTER, 0, [0, 8]).status, Status::Good);
    assert_eq!(reserve_out(&mut target, b, REGISTER, 0, [9, 8]).status, Status::ReservationConflict);
    assert_eq!(reserve_out(&mut target, a, RESERVE, 3, [7, 0]).status, Status::Good);
    assert_eq!(reserve_out(&mut target, b, RESERVE, 3, [8, 0]).status, Status::ReservationConflict);
    assert_eq!(
        sense_of(&reserve_out(&mut target, a, RELEASE, 1, [7, 0])),
        (5, (0x26, 0x04)),
        "another type than the one that is held"
    );
    assert_eq!(reserve_out(&mut target, b, PREEMPT, 3, [8, 6]).status, Status::ReservationConflict);
    assert_eq!(reserve_out(&mut target, b, PREEMPT, 3, [8, 7]).status, Status::Good);
    assert_eq!(target.reservations().holder(), Some((3, "b")));
    assert_eq!(target.reservations().keys(), [(String::from("b"), 8)]);
    let refused = respond(&mut target, a, &read(0, 1), &[]);
    assert_eq!(sense_of(&refused), (6, REGISTRATIONS_PREEMPTED));
    assert_eq!(respond(&mut target, a, &read(0, 1), &[]).status, Status::ReservationConflict);
    let full = Cdb::new(&cdb::PERSISTENT_RESERVE_IN_READ_FULL_STATUS).with("ALLOCATION LENGTH", 255);
    let data = respond(&mut target, a, &full, &[]).data_in;
    // Generation 3: two registrations and a preemption. One descriptor of 24 bytes with a TransportID of 24.
    assert_eq!((data.len(), &data[..8]), (8 + 48, &[0, 0, 0, 3, 0, 0, 0, 48][..]));
    assert_eq!((&data[8..16], data[20], data[21], data[32]), (&[0, 0, 0, 0, 0, 0, 0, 8][..], 1, 3, 0x45));
}

const REGISTRATIONS_PREEMPTED: (u8, u8) = (0x2a, 0x05);

#[test]
fn preempt_and_abort_answers_when_nothing_of_the_preempted_runs() {
    let mut target = target();
    let [a, b] = ["a", "b"].map(|name| connect(&mut target, name));
    for (nexus, key) in [(a, 1), (b, 2)] {
        assert_eq!(reserve_out(&mut target, nexus, REGISTER, 0, [0, key]).status, Status::Good);
    }
    let Outcome::Run(running, _) = target.begin(a, &request(&write(0, 1), &[0; 512])) else { panic!() };
    let abort = Cdb::new(&cdb::PERSISTENT_RESERVE_OUT_PREEMPT_AND_ABORT)
        .with("TYPE", 3)
        .with("PARAMETER LIST LENGTH", 24);
    let data = [&2u64.to_be_bytes()[..], &1u64.to_be_bytes(), &[0; 8]].concat();
    let Outcome::Wait(id) = target.begin(b, &Request { token: 5, ..request(&abort, &data) }) else {
        panic!()
    };
    assert_eq!(target.news(b), None);
    assert!(!target.end(running), "the write of the preempted gets no response");
    assert_eq!(target.news(b), Some(News::Enabled(id, 5)));
    assert_eq!(target.resume(id, abort.bytes(), &data), Outcome::Respond(Response::GOOD));
    assert_eq!(target.tasks.of(|_| true), []);
}

#[test]
fn parameters_are_selected_within_their_masks() {
    let mut target = target();
    let [a, b] = ["a", "b"].map(|name| connect(&mut target, name));
    let select = |target: &mut Target, page: &[u8]| {
        let data = [&[0, 0, 0, 0][..], page].concat();
        let cdb = Cdb::new(&cdb::MODE_SELECT_6).with("PF", 1);
        respond(target, a, &cdb.with("PARAMETER LIST LENGTH", data.len() as u64), &data)
    };
    let [mut caching, mut control] = unit::pages(&target.unit, unit::Modes::default());
    caching[2] ^= unit::WCE;
    assert_eq!(select(&mut target, &caching).status, Status::Good);
    let Outcome::Run(id, steps) = target.begin(a, &request(&write(0, 1), &[0; 512])) else { panic!() };
    assert!(matches!(steps[0].action, unit::Action::Write { fua: true, .. }), "{steps:?}");
    target.end(id);
    assert_eq!(sense_of(&respond(&mut target, b, &read(0, 1), &[])), (6, (0x2a, 0x01)));
    caching[2] |= 1;
    let refused = select(&mut target, &caching);
    assert_eq!(sense_of(&refused), (5, (0x26, 0)));
    assert_eq!(Sense::decode(&refused.sense).unwrap().field_pointer().unwrap().byte, 6);
    control[2] |= unit::D_SENSE;
    control[4] |= unit::SWP;
    assert_eq!(select(&mut target, &control).status, Status::Good);
    let refused = respond(&mut target, a, &write(0, 1), &[0; 512]);
    assert_eq!((refused.sense[0], sense_of(&refused)), (0x72, (7, (0x27, 2))));
    assert_eq!(target.manage(b, Function::Reset, 0), Managed::Complete);
    assert_eq!(sense_of(&respond(&mut target, a, &write(0, 1), &[0; 512])), (6, BUS_DEVICE_RESET));
    assert_eq!(respond(&mut target, a, &write(0, 1), &[0; 512]).status, Status::Good);
}

#[test]
fn a_stopped_unit_is_not_ready() {
    let mut target = target();
    let nexus = connect(&mut target, "a");
    let stop = Cdb::new(&cdb::START_STOP_UNIT);
    assert_eq!(respond(&mut target, nexus, &stop, &[]).status, Status::Good);
    assert_eq!(sense_of(&respond(&mut target, nexus, &read(0, 1), &[])), (2, (4, 2)));
    assert_eq!(respond(&mut target, nexus, &Cdb::new(&cdb::INQUIRY), &[]).status, Status::Good);
    assert_eq!(respond(&mut target, nexus, &stop.with("START", 1), &[]).status, Status::Good);
    assert_eq!(respond(&mut target, nexus, &read(0, 1), &[]).status, Status::Good);
}

#[test]
fn a_device_that_grows_is_an_attention() {
    let mut target = target();
    let nexus = connect(&mut target, "a");
    let geometry = Geometry::new(65 * BLOCK, Limits::unlimited(BLOCK as u32));
    target.observe(&geometry);
    target.observe(&geometry);
    assert_eq!(sense_of(&respond(&mut target, nexus, &read(64, 1), &[])), (6, CAPACITY_CHANGED));
    assert_eq!(respond(&mut target, nexus, &read(64, 1), &[]).status, Status::Good);
}

/// What a life does next.
#[derive(Clone, Debug)]
enum Deed {
    Begin {
        port: usize,
        attribute: Attribute,
        kind: usize,
        lba: u64,
    },
    /// The running command at this place ends.
    End(usize),
    Manage {
        port: usize,
        function: usize,
        at: usize,
    },
    Disconnect(usize),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let attribute = prop_oneof![
        6 => Just(Attribute::Simple), 1 => Just(Attribute::Ordered), 1 => Just(Attribute::HeadOfQueue)
    ];
    let deed = prop_oneof![
        8 => (0..3usize, attribute, 0..3usize, 0..6u64)
            .prop_map(|(port, attribute, kind, lba)| Deed::Begin { port, attribute, kind, lba }),
        6 => any::<prop::sample::Index>().prop_map(|at| Deed::End(at.index(1 << 16))),
        1 => (0..3usize, 0..4usize, any::<prop::sample::Index>())
            .prop_map(|(port, function, at)| Deed::Manage { port, function, at: at.index(1 << 16) }),
        1 => (0..3usize).prop_map(Deed::Disconnect),
    ];
    prop::collection::vec(deed, 1..120)
}

/// A command, as the model has it.
struct Known {
    nexus: Nexus,
    attribute: Attribute,
    range: (u64, u64),
    exclusive: bool,
    id: Option<TaskId>,
    runs: bool,
    cdb: Cdb,
}

#[derive(Default)]
struct Life {
    /// By number, which is their order and their token.
    all: BTreeMap<u64, Known>,
    /// Functions that are not complete: their token, and the commands that ran when they were asked for.
    functions: BTreeMap<u64, Vec<u64>>,
    next: u64,
}

impl Life {
    /// Whether the model lets a command run: the rules of SAM-5 and of an exclusive range, one by one.
    fn check_run(&self, number: u64) {
        let own = &self.all[&number];
        for (other, task) in self.all.iter().filter(|(other, _)| **other != number) {
            let overlap = own.range.0 < task.range.1 && task.range.0 < own.range.1;
            assert!(!(task.runs && overlap && (own.exclusive || task.exclusive)), "{number} beside {other}");
            let older = *other < number;
            match own.attribute {
                Attribute::Ordered => assert!(!older, "ordered {number} before {other}"),
                Attribute::Simple => {
                    assert!(!(older && task.attribute == Attribute::Ordered), "{number} passes {other}");
                }
                Attribute::HeadOfQueue => {}
            }
        }
    }

    fn take(&mut self, number: u64, outcome: Outcome) {
        match outcome {
            Outcome::Respond(_) => {
                self.all.remove(&number);
            }
            Outcome::Run(id, _) => {
                self.check_run(number);
                let task = self.all.get_mut(&number).unwrap();
                (task.id, task.runs) = (Some(id), true);
            }
            Outcome::Wait(id) => self.all.get_mut(&number).unwrap().id = Some(id),
        }
    }

    fn listen(&mut self, target: &mut Target, nexuses: &[Nexus]) {
        loop {
            let mut all: Vec<News> = Vec::new();
            for nexus in nexuses {
                all.extend(core::iter::from_fn(|| target.news(*nexus)));
            }
            if all.is_empty() {
                return;
            }
            // Nexuses hear at different times; what is dropped was so before others went on.
            all.sort_by_key(|news| !matches!(news, News::Dropped(_)));
            for news in all {
                match news {
                    News::Enabled(id, number) => {
                        let cdb = self.all[&number].cdb;
                        let outcome = target.resume(id, cdb.bytes(), &[0; 1024]);
                        assert!(!matches!(outcome, Outcome::Wait(_)));
                        self.take(number, outcome);
                    }
                    News::Dropped(number) => {
                        let dropped = self.all.remove(&number).expect("a command of this number");
                        assert!(!dropped.runs);
                    }
                    News::Managed(token) => {
                        let ran = self.functions.remove(&token).expect("a function of this number");
                        assert!(ran.iter().all(|number| !self.all.contains_key(number)), "{token} is early");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Commands run in the order that their attributes want, exclusive ones alone on their range; each ends once; a
    /// function completes when what it has aborted has ended; nothing waits for ever.
    #[test]
    fn lives_of_initiators(deeds in deeds()) {
        let mut target = target();
        let mut nexuses = ["a", "b", "c"].map(|name| connect(&mut target, name));
        let mut life = Life::default();
        for deed in deeds {
            life.next += 1;
            let number = life.next;
            match deed {
                Deed::Begin { port, attribute, kind, lba } => {
                    let (cdb, exclusive) = match kind {
                        0 => (read(lba, 2), false),
                        1 => (write(lba, 2), false),
                        _ => (compare(lba, 1), true),
                    };
                    let blocks = if exclusive { 1 } else { 2 };
                    let range = (lba * BLOCK, (lba + blocks) * BLOCK);
                    let nexus = nexuses[port];
                    life.all.insert(number, Known { nexus, attribute, range, exclusive, id: None, runs: false, cdb });
                    let request = Request { cdb: cdb.bytes(), data_out: &[0; 1024], attribute, token: number };
                    let outcome = target.begin(nexus, &request);
                    life.take(number, outcome);
                }
                Deed::End(at) => {
                    let running: Vec<u64> = life.all.iter().filter(|(_, task)| task.runs).map(|(n, _)| *n).collect();
                    if running.is_empty() {
                        continue;
                    }
                    let ended = life.all.remove(&running[at % running.len()]).unwrap();
                    target.end(ended.id.unwrap());
                }
                Deed::Manage { port, function, at } => {
                    let tokens: Vec<u64> = life.all.keys().copied().collect();
                    let wanted = tokens.get(at % tokens.len().max(1)).copied().unwrap_or(0);
                    let function = [
                        Function::AbortTask(wanted), Function::AbortTaskSet, Function::ClearTaskSet, Function::Reset
                    ][function];
                    let nexus = nexuses[port];
                    let chosen = |number: u64, task: &Known| task.runs && match function {
                        Function::AbortTask(wanted) => number == wanted && task.nexus == nexus,
                        Function::AbortTaskSet => task.nexus == nexus,
                        _ => true,
                    };
                    let ran: Vec<u64> = life.all.iter().filter(|(n, task)| chosen(**n, task)).map(|(n, _)| *n).collect();
                    match target.manage(nexus, function, number) {
                        Managed::Complete => prop_assert!(ran.is_empty()),
                        Managed::NoTask => {}
                        Managed::Wait => { life.functions.insert(number, ran); }
                    }
                }
                Deed::Disconnect(port) => {
                    let gone = nexuses[port];
                    target.disconnect(gone);
                    life.all.retain(|_, task| task.nexus != gone || task.runs);
                    life.functions.clear();
                    // Functions of others complete without being followed any further.
                    let others: Vec<Nexus> = nexuses.iter().copied().filter(|nexus| *nexus != gone).collect();
                    others.iter().for_each(|nexus| target.ports.get_mut(nexus).unwrap().news.retain(|news| !matches!(news, News::Managed(_))));
                    target.waiting.clear();
                    let nexus = target.connect("again", Arc::new(Silent));
                    target.ports.get_mut(&nexus).unwrap().attentions.clear();
                    nexuses[port] = nexus;
                }
            }
            life.listen(&mut target, &nexuses);
            target.ports.values_mut().for_each(|port| port.attentions.clear());
        }
        while let Some((&number, _)) = life.all.iter().find(|(_, task)| task.runs) {
            let ended = life.all.remove(&number).unwrap();
            target.end(ended.id.unwrap());
            life.listen(&mut target, &nexuses);
        }
        prop_assert!(life.all.is_empty(), "commands wait and nothing runs");
        prop_assert!(life.functions.is_empty());
        prop_assert!(target.tasks.of(|_| true).is_empty());
    }
}

/// Connects through a port of the target, and takes the unit attention of a new one.
fn connect_through(target: &mut Target, identifier: u16, group: u16) -> Nexus {
    let nexus = target.connect_through(Some(TargetPort { identifier, group }), "x", Arc::new(Silent));
    assert_eq!(sense_of(&respond(target, nexus, &Cdb::new(&cdb::TEST_UNIT_READY), &[])), (6, POWER_ON));
    nexus
}

fn inquiry(target: &mut Target, nexus: Nexus, page: Option<u8>) -> Vec<u8> {
    let cdb = Cdb::new(&cdb::INQUIRY)
        .with("EVPD", u64::from(page.is_some()))
        .with("PAGE CODE", u64::from(page.unwrap_or(0)))
        .with("ALLOCATION LENGTH", 255);
    respond(target, nexus, &cdb, &[]).data_in
}

/// The groups as REPORT TARGET PORT GROUPS tells them: number, state, ports.
fn groups(target: &mut Target, nexus: Nexus) -> Vec<(u64, u64, Vec<u64>)> {
    let cdb = Cdb::new(&cdb::REPORT_TARGET_PORT_GROUPS).with("ALLOCATION LENGTH", 255);
    let response = respond(target, nexus, &cdb, &[]);
    assert_eq!(response.status, Status::Good);
    let all = crate::page::TARGET_PORT_GROUPS.decode(&response.data_in).items();
    let group = |group: &crate::structure::Decoded<'_>| {
        let ports =
            group.items().iter().filter_map(|port| port.get("RELATIVE TARGET PORT IDENTIFIER")).collect();
        let number = |name| group.get(name).unwrap();
        (number("TARGET PORT GROUP"), number("ASYMMETRIC ACCESS STATE"), ports)
    };
    all.iter().map(group).collect()
}

#[test]
fn ports_in_groups_tell_what_they_are() {
    let mut target = target();
    let [one, two, three] =
        [(1, 7), (2, 7), (0x1234, 8)].map(|(port, group)| connect_through(&mut target, port, group));
    target.set_access(8, AccessState::Standby);
    for nexus in [one, two, three] {
        let cdb = Cdb::new(&cdb::REPORT_LUNS).with("ALLOCATION LENGTH", 16);
        assert_eq!(respond(&mut target, nexus, &cdb, &[]).status, Status::Good);
        assert_eq!(
            sense_of(&respond(&mut target, nexus, &Cdb::new(&cdb::TEST_UNIT_READY), &[])),
            (6, (0x2a, 6))
        );
        assert_eq!(groups(&mut target, nexus), [(7, 0, vec![1, 2]), (8, 2, vec![0x1234])]);
        let standard = inquiry(&mut target, nexus, None);
        assert_eq!(crate::page::INQUIRY.decode(&standard).get("TPGS"), Some(1));
    }
    let page = inquiry(&mut target, three, Some(0x83));
    let all = crate::page::DEVICE_IDENTIFICATION.decode(&page).items();
    let own: Vec<_> =
        all.iter().filter(|one| one.get("ASSOCIATION") == Some(1)).map(|one| one.bytes()).collect();
    assert_eq!(own, [[1, 0x14, 0, 4, 0, 0, 0x12, 0x34], [1, 0x15, 0, 4, 0, 0, 0, 8]]);
    // What the other ports tell of the unit itself is the same.
    assert_eq!(page[..page.len() - 16], inquiry(&mut target, one, Some(0x83))[..page.len() - 16]);
    assert_eq!(inquiry(&mut target, three, Some(0x80)), inquiry(&mut target, one, Some(0x80)));
}

/// Clusters look for a number, not for a text; it is made of the serial number, so all paths to a unit have the same.
#[test]
fn a_unit_is_named_by_a_text_and_by_a_number() {
    let mut target = target();
    let nexus = connect(&mut target, "a");
    let page = inquiry(&mut target, nexus, Some(0x83));
    let items = crate::page::DEVICE_IDENTIFICATION.decode(&page).items();
    let of = |name: &str| items.iter().map(|item| item.get(name).unwrap()).collect::<Vec<_>>();
    assert_eq!(
        (of("ASSOCIATION"), of("DESIGNATOR TYPE"), of("CODE SET")),
        (vec![0, 0], vec![1, 3], vec![2, 1])
    );
    let number = items[1].bytes();
    assert_eq!((number.len(), number[4] >> 4), (12, 3), "locally assigned");
}

#[test]
fn a_target_that_does_not_tell_its_ports_apart_has_no_groups() {
    let mut target = target();
    let nexus = connect(&mut target, "a");
    let standard = inquiry(&mut target, nexus, None);
    assert_eq!(crate::page::INQUIRY.decode(&standard).get("TPGS"), Some(0));
    let cdb = Cdb::new(&cdb::REPORT_TARGET_PORT_GROUPS).with("ALLOCATION LENGTH", 255);
    assert_eq!(sense_of(&respond(&mut target, nexus, &cdb, &[])), (5, (0x24, 0)));
}

#[test]
fn a_port_that_cannot_reach_the_unit_says_so() {
    let sense = Cdb::new(&cdb::REQUEST_SENSE).with("ALLOCATION LENGTH", 18);
    let mode = Cdb::new(&cdb::MODE_SENSE_6).with("PAGE CODE", 0x3f).with("ALLOCATION LENGTH", 255);
    let capacity = Cdb::new(&cdb::READ_CAPACITY_10);
    for (state, code, tells) in [(AccessState::Standby, 0x0b, true), (AccessState::Unavailable, 0x0c, false)]
    {
        let mut target = target();
        let [far, near] = [(1, 1), (2, 2)].map(|(port, group)| connect_through(&mut target, port, group));
        target.set_access(1, state);
        for nexus in [far, near] {
            assert_eq!(sense_of(&respond(&mut target, nexus, &read(0, 1), &[])), (6, (0x2a, 6)));
        }
        for cdb in [&read(0, 1), &Cdb::new(&cdb::TEST_UNIT_READY), &Cdb::new(&cdb::SYNCHRONIZE_CACHE_10)] {
            assert_eq!(sense_of(&respond(&mut target, far, cdb, &[])), (2, (4, code)), "{cdb:?}");
            assert_eq!(respond(&mut target, near, cdb, &[]).status, Status::Good, "{cdb:?}");
        }
        for cdb in [&mode, &capacity] {
            let response = respond(&mut target, far, cdb, &[]);
            assert_eq!(response.status == Status::Good, tells, "{state:?} {cdb:?}");
        }
        assert_eq!(respond(&mut target, far, &sense, &[]).status, Status::Good);
        assert_eq!(groups(&mut target, far)[0].1, u64::from(state.code()));
        target.set_access(1, AccessState::NonOptimized);
        assert_eq!(sense_of(&respond(&mut target, far, &read(0, 1), &[])), (6, (0x2a, 6)));
        assert_eq!(respond(&mut target, far, &read(0, 1), &[]).status, Status::Good);
    }
}
