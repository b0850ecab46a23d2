//! Registered layers and drivers are known by their names wherever the library's own are.

use crate::kinds::register;
use platter::block::params::{Param, Unit};
use platter::disk::drivers::table::Medium;
use platter::registry::{DriverType, Shape, find, names, table};
use platter::stack::{LayerError, LayerType};
use platter::{Access, open, register_driver, register_layer};

#[test]
fn specs_lists_and_errors_know_what_is_registered() {
    register();
    for (name, shape, params) in
        [("stall", Shape::Layer, &["nth", "pause"][..]), ("shelf", Shape::Disk, &["size", "block"])]
    {
        let row = find(name).expect("it is registered");
        assert!(row.shape == shape && names().contains(&name) && table().iter().any(|row| row.name == name));
        let own: Vec<&str> = row.params().take(2).map(|param| param.name).collect();
        assert_eq!(own, params);
        platter::registry::parse(&row.example).expect("its example is a spec");
    }
    for (spec, told) in [
        ("stal(ram(1M))", "did you mean `stall`?"),
        ("shlef(1M)", "did you mean `shelf`?"),
        ("stall(nht=3, ram(1M))", "did you mean `nth`?"),
        ("stall(nth=0, ram(1M))", "from 1 to"),
        ("stall()", "exactly one device"),
        ("shelf()", "size"),
        ("shelf(1000)", "not a multiple of 512"),
        ("shelf(1M, block=1024)", "512, 4096"),
        ("shelf(1M, elevator=nop)", "did you mean `noop`?"),
    ] {
        let error = open(spec, Access::read_write()).expect_err(spec).to_string();
        assert!(error.contains(told), "{spec}: {error}");
    }
    let disk = open("stall(nth=3, ram(1M))", Access::read()).expect("a device");
    assert_eq!(&*disk.name(), "stall(nth=3, ram)");
    let disk = open("shelf(1M)", Access::read()).expect("a device");
    assert!(disk.write_at(&[1; 512], 0).is_err(), "it was opened for reading");
}

const PACE: Param = Param::number("pace", Unit::Millis, 5, (0, 100), "how long");
const BAD_RANGE: Param = Param::number("pace", Unit::Millis, 5, (6, 100), "how long");
const NO_HELP: Param = Param::number("pace", Unit::Millis, 5, (0, 100), "");

macro_rules! layer {
    ($name:expr, $params:expr) => {
        LayerType {
            name: $name,
            summary: "for a test",
            params: $params,
            members: 1..=1,
            build: |_, _| Err(LayerError::Members("it cannot be built".to_owned())),
        }
    };
}

macro_rules! driver {
    ($name:expr, $params:expr) => {
        DriverType {
            name: $name,
            summary: "for a test",
            medium: Medium::Path,
            params: $params,
            open: |args| Err(format!("no disk in {}", args.path.display()).into()),
        }
    };
}

/// What all registries refuse, with the same words.
#[test]
fn what_could_not_be_used_is_refused_by_all_alike() {
    register();
    static LAYERS: [(LayerType, &str); 10] = [
        (layer!("raid0", &[]), "in use already"),
        (layer!("shelf", &[]), "in use already"),
        (layer!("3rd", &[]), "a name must be a letter"),
        (layer!("bad-range", &[BAD_RANGE]), "6 (min) <= 5 (default)"),
        (layer!("no-help", &[NO_HELP]), "help"),
        (layer!("twice", &[PACE, PACE]), "two parameters are called `pace`"),
        (layer!("ahead", &[Param { name: "readahead", ..PACE }]), "`readahead` is that of the cache"),
        (LayerType { summary: "", ..layer!("no-summary", &[]) }, "`summary` is not one line"),
        (LayerType { members: 0..=0, ..layer!("no-member", &[]) }, "no device below"),
        (LayerType { summary: "two\nlines", ..layer!("long-summary", &[]) }, "`summary` is not one line"),
    ];
    for (row, told) in &LAYERS {
        let error = register_layer(row).expect_err(row.name).to_string();
        assert!(error.starts_with(&format!("layer `{}`: ", row.name)) && error.contains(told), "{error}");
    }
    static DRIVERS: [(DriverType, &str); 8] = [
        (driver!("file", &[]), "in use already"),
        (driver!("stall", &[]), "in use already"),
        (driver!("uring", &[]), "in use already"),
        (driver!("a b", &[]), "a name must be a letter"),
        (driver!("bad-range", &[BAD_RANGE]), "6 (min) <= 5 (default)"),
        (driver!("no-help", &[NO_HELP]), "help"),
        (driver!("deep", &[Param { name: "depth", ..PACE }]), "every disk has a parameter `depth`"),
        (driver!("pathless", &[Param { name: "path", ..PACE }]), "every disk has a parameter `path`"),
    ];
    for (row, told) in &DRIVERS {
        let error = register_driver(row).expect_err(row.name).to_string();
        assert!(error.starts_with(&format!("driver `{}`: ", row.name)) && error.contains(told), "{error}");
    }
    assert!(["3rd", "twice", "deep", "uring"].iter().all(|name| find(name).is_none()));
}

#[test]
fn the_error_of_a_driver_is_shown_with_the_spec() {
    static TYPE: DriverType = driver!("attic", &[PACE]);
    register_driver(&TYPE).expect("a name that is free");
    let error = open("raid0(ram(1M), attic(box.img, pace=7))", Access::read()).expect_err("no disk");
    let message = error.to_string();
    assert!(message.contains("attic cannot be opened: no disk in box.img"), "{message}");
    assert!(message.contains("raid0(ram(1M), attic(box.img, pace=7))") && !error.is_usage(), "{message}");
}

#[test]
fn of_many_that_register_one_name_one_wins() {
    static LAYER: LayerType = layer!("contested", &[]);
    static DRIVER: DriverType = driver!("contested", &[]);
    let won = std::thread::scope(|scope| {
        let one = |at: usize| {
            move || if at.is_multiple_of(2) { register_layer(&LAYER) } else { register_driver(&DRIVER) }
        };
        let all: Vec<_> = (0..8).map(|at| scope.spawn(one(at))).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).filter(Result::is_ok).count()
    });
    assert_eq!((won, names().iter().filter(|name| **name == "contested").count()), (1, 1));
}
