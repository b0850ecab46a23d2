//! Elevators that a program registers: they can be named wherever the built-in ones can.

use platter::block::elevator::{Elevator, ElevatorType, Noop, RequestId, RequestInfo};
use platter::block::params::{Param, ParamError, Unit};
use platter::block::time::Time;
use platter::elevators::TABLE;
use platter::registry::{elevator_names, elevator_params};
use platter::{Access, open, register_elevator};

/// First in, first out, with another name and a parameter.
struct Named(&'static str, Noop, i64);

impl Elevator for Named {
    fn name(&self) -> &'static str {
        self.0
    }
    fn reserve(&mut self, requests: usize) {
        self.1.reserve(requests);
    }
    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        self.1.insert(now, id, info);
    }
    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        self.1.absorbed(survivor, absorbed, info);
    }
    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        self.1.dispatch(now, force)
    }
    fn len(&self) -> usize {
        self.1.len()
    }
    fn params(&self) -> &'static [Param] {
        &PARAMS
    }
    fn get(&self, name: &str) -> Option<i64> {
        (name == "pace").then_some(self.2)
    }
    fn set(&mut self, _name: &str, value: i64) -> Result<(), ParamError> {
        self.2 = value;
        Ok(())
    }
}

const PACE: Param = Param::number("pace", Unit::Millis, 5, (0, 100), "how long");
static PARAMS: [Param; 1] = [PACE];

macro_rules! row {
    ($name:expr, $params:expr) => {
        ElevatorType {
            name: $name,
            summary: "for a test",
            params: $params,
            make: || Box::new(Named($name, Noop::default(), 5)),
        }
    };
}

#[test]
fn a_registered_elevator_is_known_by_its_name_everywhere() {
    static TYPE: ElevatorType = row!("snail", &PARAMS);
    let error = open("ram(1M, elevator=snail)", Access::read()).expect_err("not known yet").to_string();
    assert!(!error.contains("did you mean"), "{error}");
    register_elevator(&TYPE).expect("a name that is free");

    let disk = open("ram(1M, elevator=snail(pace=50ms))", Access::read_write()).expect("known by now");
    disk.write_at(&[1; 4096], 0).expect("it works");
    let pace =
        |disk: &platter::Device| disk.elevator_params().iter().map(|(_, value)| *value).collect::<Vec<_>>();
    assert_eq!(pace(&disk), [50]);
    disk.set_elevator("noop").expect("a built-in one");
    disk.set_elevator("snail").expect("and back");
    assert_eq!(pace(&disk), [5]);

    assert!(elevator_names().starts_with(&["none", "noop"]) && elevator_names().contains(&"snail"));
    let params: Vec<&str> = elevator_params("snail").map(|param| param.default).collect();
    assert_eq!(params, ["5ms"]);

    // Errors include it too: among similar names, with its parameters, and in the list of names.
    for (spec, told) in [
        ("ram(1M, elevator=snial)", "snail"),
        ("ram(1M, elevator=paternoster)", "snail"),
        ("ram(1M, elevator=snail(pase=1))", "pace"),
        ("ram(1M, elevator=snail(pace=1s))", "at most 100ms"),
    ] {
        let error = open(spec, Access::read()).expect_err("a wrong spec").to_string();
        assert!(error.contains(told), "{spec}: {error}");
    }
    let error = disk.set_elevator("paternoster").expect_err("unknown").to_string();
    assert!(error.contains("snail"), "{error}");
}

#[test]
fn what_could_not_be_used_is_refused() {
    const BAD_RANGE: Param = Param::number("pace", Unit::Millis, 5, (6, 100), "how long");
    const NO_HELP: Param = Param::number("pace", Unit::Millis, 5, (0, 100), "");
    const OTHER_DEFAULT: Param = Param::number("pace", Unit::Millis, 6, (0, 100), "how long");
    const BAD_NAME: Param = Param::number("a pace", Unit::Millis, 5, (0, 100), "how long");
    const WORDS: Param = Param { words: &["a", "b"], ..PACE };
    static ROWS: [(ElevatorType, &str); 12] = [
        (row!("none", &[]), "in use already"),
        (row!("deadline", &[]), "in use already"),
        (row!("", &[]), "a name must be a letter"),
        (row!("3rd", &[]), "a name must be a letter"),
        (row!("a b", &[]), "a name must be a letter"),
        (row!("bad-range", &[BAD_RANGE]), "6 (min) <= 5 (default)"),
        (row!("no-help", &[NO_HELP]), "help"),
        (row!("other-default", &[OTHER_DEFAULT]), "does not have pace=6"),
        (row!("bad-param-name", &[BAD_NAME]), "`a pace`"),
        (row!("twice", &[PACE, PACE]), "two parameters are called `pace`"),
        (row!("few-words", &[WORDS]), "2 words for values up to 100"),
        (ElevatorType { name: "impostor", ..row!("someone", &[]) }, "calls itself `someone`"),
    ];
    for (row, told) in &ROWS {
        let error = register_elevator(row).expect_err(row.name).to_string();
        assert!(error.contains(told) && error.contains(row.name), "{}: {error}", row.name);
    }
    let names = elevator_names();
    assert!(ROWS.iter().all(|(row, _)| TABLE.iter().any(|other| other.name == row.name)
        || row.name == "none"
        || !names.contains(&row.name)));
}

#[test]
fn of_many_that_register_one_name_one_wins() {
    static TYPE: ElevatorType = row!("contested", &[]);
    let won = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| register_elevator(&TYPE).is_ok())).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).filter(|won| *won).count()
    });
    assert_eq!(won, 1);
    assert_eq!(elevator_names().iter().filter(|name| **name == "contested").count(), 1);
}
