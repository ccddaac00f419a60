//! Who gets which item, in which order, and for how long.

use std::collections::BTreeMap;

use gradus_core::Record;
use gradus_label::requests::{NextRequest, SaveRequest};
use gradus_label::{ErrorKind, Labeling, Order, Settings};
use proptest::prelude::*;

use crate::{MINUS, PLUS, Scratch, after, finish, next, person, settings, suggested, this};

fn queue(labeling: &Labeling) -> Vec<usize> {
    std::iter::from_fn(|| next(labeling, "Ann").map(|_| finish(labeling, "Ann", [PLUS; 3]))).collect()
}

fn records() -> Vec<Record> {
    vec![
        suggested(0, [0.9, 0.9, 0.9], &[None, None]),
        suggested(1, [0.9, 0.55, 0.1], &[Some(2), Some(2)]),
        suggested(2, [0.9, 0.8, 0.7], &[Some(1), Some(2)]),
        suggested(3, [0.9, 0.9, 0.52], &[Some(1), None]),
        crate::record(4),
    ]
}

#[test]
fn the_queue_has_the_order_that_was_asked_for() {
    // Items 2 and 3: of three annotators (two judges, one reward model) one pair of three, or two, agree.
    let orders = [
        (Order::File, vec![0, 1, 2, 3, 4]),
        (Order::Uncertainty, vec![3, 1, 2, 0, 4]),
        (Order::Disagreement, vec![2, 3, 1, 0, 4]),
    ];
    for (order, expected) in orders {
        let scratch = Scratch::of(records(), Settings { order, ..settings(1) });
        assert_eq!(queue(&scratch.open()), expected, "{order:?}");
    }
}

#[test]
fn people_who_differ_move_an_item_up() {
    let scratch = Scratch::new(3, Settings { order: Order::Disagreement, ..settings(3) });
    let labeling = scratch.open();
    for item in 0..3 {
        assert_eq!(finish(&labeling, "Ann", [PLUS; 3]), item);
    }
    for (item, marks) in [(0, [PLUS; 3]), (1, [PLUS, MINUS, None]), (2, [PLUS; 3])] {
        let asked = NextRequest { item: Some(item), ..NextRequest::of("Bo") };
        let task = labeling.next(&asked).unwrap().task.unwrap();
        labeling.save(&SaveRequest { finished: true, ..task.save("Bo", marks.to_vec()) }).unwrap();
    }
    assert_eq!(next(&labeling, "Cy").unwrap().item, 1);
}

#[test]
fn an_item_is_with_one_person_at_a_time_and_with_no_more_than_enough() {
    let scratch = Scratch::new(2, settings(1));
    let labeling = scratch.open();
    assert_eq!(next(&labeling, "Ann").unwrap().item, 0);
    assert_eq!(next(&labeling, "Ann").unwrap().item, 0, "what she holds is hers again after a reload");
    assert_eq!(next(&labeling, "Bo").unwrap().item, 1);
    let nothing = labeling.next(&NextRequest::of("Cy")).unwrap();
    assert_eq!(nothing.task, None);
    let said = nothing.nothing.unwrap();
    assert!(said.contains("The last 2 items are with other people: look again in 1 min."), "{said}");
    let refused = labeling.heartbeat(&this("Cy", 0)).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Conflict, "lease_lost"));
    finish(&labeling, "Ann", [PLUS; 3]);
    finish(&labeling, "Bo", [PLUS; 3]);
    let nothing = labeling.next(&NextRequest::of("Cy")).unwrap();
    assert!(nothing.nothing.unwrap().starts_with("Every item is labeled"));
    assert_eq!((nothing.progress.done, nothing.progress.mine), (2, 0));
    let refused = labeling.next(&NextRequest { item: Some(0), ..NextRequest::of("Cy") }).unwrap_err();
    assert_eq!(refused.code(), "labeled_enough");
    let own = labeling.next(&NextRequest { item: Some(0), ..NextRequest::of("Ann") }).unwrap().task.unwrap();
    assert!(own.finished && own.label.marks == [PLUS; 3], "asked back for");
}

#[test]
fn a_lease_runs_out_without_a_heartbeat() {
    let scratch = Scratch::new(1, settings(1));
    let labeling = scratch.open();
    let task = next(&labeling, "Ann").unwrap();
    scratch.wait(50);
    assert!(labeling.heartbeat(&this("Ann", 0)).unwrap().held);
    scratch.wait(50);
    assert!(next(&labeling, "Bo").is_none());
    scratch.wait(11);
    // Nobody else came: her item is hers again.
    assert!(labeling.heartbeat(&this("Ann", 0)).unwrap().held);
    scratch.wait(61);
    assert_eq!(next(&labeling, "Bo").unwrap().item, 0);
    let lost = labeling.save(&task.save("Ann", vec![PLUS, None, None])).unwrap_err();
    assert_eq!((lost.kind(), lost.code()), (ErrorKind::Conflict, "lease_lost"));
    assert!(lost.to_string().contains("item 0 was given to somebody else after 1 minutes"), "{lost}");
    labeling.release(&this("Bo", 0)).unwrap();
    labeling.save(&task.save("Ann", vec![PLUS, None, None])).unwrap();
}

#[test]
fn what_is_left_for_later_comes_after_all_others() {
    let scratch = Scratch::new(3, settings(1));
    let labeling = scratch.open();
    next(&labeling, "Ann").unwrap();
    assert_eq!(after(&labeling, "Ann", 0), Some(1));
    assert_eq!(after(&labeling, "Ann", 1), Some(2));
    assert_eq!(after(&labeling, "Ann", 2), Some(0), "the queue begins again");
    assert_eq!(next(&labeling, "Bo").unwrap().item, 1, "she holds one item at a time");
    labeling.release(&this("Bo", 1)).unwrap();
    for _ in 0..2 {
        finish(&labeling, "Ann", [PLUS; 3]);
    }
    let last = next(&labeling, "Ann").unwrap().item;
    assert_eq!(after(&labeling, "Ann", last), Some(last), "there is no other");
}

/// Ten threads at once, as a server's: every item is finished once, by one of them.
#[test]
fn threads_share_a_project() {
    let scratch = Scratch::new(30, settings(1));
    let labeling = scratch.open();
    std::thread::scope(|scope| {
        for thread in 0..10 {
            let labeling = &labeling;
            scope.spawn(move || {
                let name = format!("person {thread}");
                while next(labeling, &name).is_some() {
                    finish(labeling, &name, [PLUS; 3]);
                }
            });
        }
    });
    let overview = labeling.overview();
    assert_eq!(
        (overview.done, overview.people.iter().map(|person| person.finished).sum::<usize>()),
        (30, 30)
    );
}

#[derive(Debug, Clone)]
enum Move {
    Next(u8),
    Skip(u8),
    Save(u8, bool),
    Undo(u8),
    Release(u8),
    Heartbeat(u8),
    Wait(u8),
    Restart,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let who = || 0..3u8;
    let one = prop_oneof![
        3 => who().prop_map(Move::Next),
        1 => who().prop_map(Move::Skip),
        4 => (who(), any::<bool>()).prop_map(|(who, finished)| Move::Save(who, finished)),
        1 => who().prop_map(Move::Undo),
        1 => who().prop_map(Move::Release),
        1 => who().prop_map(Move::Heartbeat),
        1 => (1..80u8).prop_map(Move::Wait),
        1 => Just(Move::Restart),
    ];
    prop::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever people do, in whatever order, with restarts in between: nobody gets an item that another holds or that is
    /// full, nobody gets a finished one unasked, and what was acknowledged is there.
    #[test]
    fn nobody_holds_what_another_holds(moves in moves(), enough in 1..3usize) {
        let scratch = Scratch::new(4, settings(enough));
        let mut labeling = scratch.open();
        let names = ["Ann", "Bo", "Cy"];
        // What each person's page shows, and what was acknowledged.
        let mut shown: BTreeMap<&str, gradus_label::requests::Task> = BTreeMap::new();
        let mut finished: BTreeMap<(&str, usize), bool> = BTreeMap::new();
        for step in moves {
            match step {
                Move::Next(who) | Move::Skip(who) => {
                    let name = names[who as usize];
                    let after = matches!(step, Move::Skip(_)).then(|| shown.get(name).map(|task| task.item)).flatten();
                    let request = NextRequest { after, ..NextRequest::of(name) };
                    match labeling.next(&request).unwrap().task {
                        Some(task) => {
                            prop_assert!(!finished.get(&(name, task.item)).copied().unwrap_or(false));
                            let others = finished.iter().filter(|((other, item), done)| *other != name && *item == task.item && **done);
                            prop_assert!(others.count() < enough);
                            shown.insert(name, task);
                        }
                        None => drop(shown.remove(name)),
                    }
                }
                Move::Save(who, done) => {
                    let name = names[who as usize];
                    let Some(task) = shown.get_mut(name) else { continue };
                    let save = SaveRequest { finished: done, ..task.save(name, vec![PLUS, MINUS, None]) };
                    if let Ok(saved) = labeling.save(&save) {
                        task.revision = saved.revision;
                        finished.insert((name, task.item), done);
                    }
                }
                Move::Undo(who) => {
                    let name = names[who as usize];
                    if let Ok(back) = labeling.undo(&person(name)) {
                        let task = back.task.unwrap();
                        finished.insert((name, task.item), task.finished);
                        shown.insert(name, task);
                    }
                }
                Move::Release(who) => {
                    if let Some(task) = shown.get(names[who as usize]) {
                        labeling.release(&this(names[who as usize], task.item)).unwrap();
                    }
                }
                Move::Heartbeat(who) => {
                    if let Some(task) = shown.get(names[who as usize]) {
                        let _ = labeling.heartbeat(&this(names[who as usize], task.item));
                    }
                }
                Move::Wait(seconds) => scratch.wait(u64::from(seconds)),
                Move::Restart => {
                    drop(labeling);
                    labeling = scratch.open();
                }
            }
            let overview = labeling.overview();
            let mut held: Vec<usize> = overview.people.iter().filter_map(|person| person.holds).collect();
            held.sort_unstable();
            let all = held.len();
            held.dedup();
            prop_assert_eq!(held.len(), all, "an item is with two people");
            for person in &overview.people {
                let done = finished.iter().filter(|((name, _), done)| *name == person.name && **done).count();
                prop_assert_eq!(person.finished, done);
            }
        }
    }
}
