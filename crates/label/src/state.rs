//! What the journal's events amount to: who said what of which item, and who holds it now.
//!
//! A lease is held by one person at a time, and a person holds one item at a time. It runs out without a heartbeat; when a
//! project is opened again, every lease that stood begins anew, so that a restart takes no item from anybody.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::SolutionLabel;
use crate::events::{Event, Saved};

/// An item while somebody works on it.
#[derive(Debug, Clone, PartialEq)]
struct Lease {
    annotator: String,
    until: f64,
}

#[derive(Debug, Clone, Default)]
struct ItemState {
    /// Each person's saves, by the numbers of their events; the last counts.
    saves: BTreeMap<String, Vec<u64>>,
    /// Each person's changes: saves and undos.
    revisions: BTreeMap<String, u64>,
    /// Who has seen the suggestions.
    shown: BTreeSet<String>,
    lease: Option<Lease>,
}

#[derive(Debug, Clone, Default)]
struct PersonState {
    /// Saves that were not taken back.
    saves: Vec<u64>,
    holds: Option<usize>,
    /// Requests that were answered: the item and its revision then.
    requests: HashMap<String, (usize, u64)>,
}

/// The state of a project.
#[derive(Debug, Clone)]
pub(crate) struct State {
    items: Vec<ItemState>,
    people: BTreeMap<String, PersonState>,
    saves: HashMap<u64, Saved>,
    lease_seconds: f64,
    /// Events so far: what was computed from the state is known by it.
    pub(crate) changes: u64,
}

impl State {
    pub(crate) fn new(items: usize, lease_seconds: u64) -> Self {
        Self {
            items: vec![ItemState::default(); items],
            people: BTreeMap::new(),
            saves: HashMap::new(),
            lease_seconds: lease_seconds as f64,
            changes: 0,
        }
    }

    /// Takes an event into account. One about an item that is not there, or a save that was lost, changes nothing.
    pub(crate) fn apply(&mut self, number: u64, event: Event, now: f64) {
        self.changes += 1;
        match event {
            Event::Saved(saved) if saved.item < self.items.len() => self.save(number, *saved, now),
            Event::Undone { annotator, save, .. } => {
                let Some(saved) = self.saves.remove(&save) else { return };
                let item = &mut self.items[saved.item];
                item.saves.entry(annotator.clone()).or_default().retain(|number| *number != save);
                *item.revisions.entry(annotator.clone()).or_default() += 1;
                self.people.entry(annotator.clone()).or_default().saves.retain(|number| *number != save);
                self.give(&annotator, saved.item, now);
            }
            Event::SuggestionsShown { annotator, item, .. } if item < self.items.len() => {
                self.items[item].shown.insert(annotator);
            }
            Event::Given { annotator, item, .. } if item < self.items.len() => {
                self.give(&annotator, item, now);
            }
            Event::Released { annotator, item, .. } if item < self.items.len() => self.free(&annotator, item),
            _ => {}
        }
    }

    fn save(&mut self, number: u64, saved: Saved, now: f64) {
        let Saved { annotator, item, .. } = &saved;
        let state = &mut self.items[*item];
        state.saves.entry(annotator.clone()).or_default().push(number);
        let revision = state.revisions.entry(annotator.clone()).or_default();
        *revision += 1;
        let person = self.people.entry(annotator.clone()).or_default();
        person.saves.push(number);
        if !saved.request.is_empty() {
            person.requests.insert(saved.request.clone(), (*item, *revision));
        }
        let (annotator, item) = (annotator.clone(), *item);
        match saved.finished {
            true => self.free(&annotator, item),
            false => self.give(&annotator, item, now),
        }
        self.saves.insert(number, saved);
    }

    /// Gives an item to a person, whose other one is free then.
    fn give(&mut self, annotator: &str, item: usize, now: f64) {
        let person = self.people.entry(annotator.to_owned()).or_default();
        if let Some(other) = person.holds.filter(|other| *other != item) {
            self.free(annotator, other);
        }
        self.people.entry(annotator.to_owned()).or_default().holds = Some(item);
        let until = now + self.lease_seconds;
        self.items[item].lease = Some(Lease { annotator: annotator.to_owned(), until });
    }

    fn free(&mut self, annotator: &str, item: usize) {
        if self.items[item].lease.as_ref().is_some_and(|lease| lease.annotator == annotator) {
            self.items[item].lease = None;
        }
        if let Some(person) = self.people.get_mut(annotator)
            && person.holds == Some(item)
        {
            person.holds = None;
        }
    }

    /// Lets a person's lease run anew.
    pub(crate) fn renew(&mut self, annotator: &str, item: usize, now: f64) {
        if self.holder(item, now) == Some(annotator) {
            self.give(annotator, item, now);
        }
    }

    /// Lets every lease run anew, as from another clock.
    pub(crate) fn restart_leases(&mut self, now: f64) {
        for lease in self.items.iter_mut().filter_map(|item| item.lease.as_mut()) {
            lease.until = now + self.lease_seconds;
        }
    }

    /// Who holds an item.
    pub(crate) fn holder(&self, item: usize, now: f64) -> Option<&str> {
        let lease = self.items[item].lease.as_ref().filter(|lease| lease.until > now)?;
        Some(&lease.annotator)
    }

    /// What a person holds.
    pub(crate) fn held_by(&self, annotator: &str, now: f64) -> Option<usize> {
        let item = self.people.get(annotator)?.holds?;
        (self.holder(item, now) == Some(annotator)).then_some(item)
    }

    /// When the first lease of other people's runs out, in seconds.
    pub(crate) fn first_free(&self, now: f64) -> Option<f64> {
        let left = self.items.iter().filter_map(|item| Some(item.lease.as_ref()?.until - now));
        left.filter(|left| *left > 0.0).min_by(f64::total_cmp)
    }

    /// A person's last save of an item.
    pub(crate) fn last_save(&self, annotator: &str, item: usize) -> Option<&Saved> {
        self.saves.get(self.items[item].saves.get(annotator)?.last()?)
    }

    /// The number of a person's last save of all, and its item.
    pub(crate) fn last_save_of(&self, annotator: &str) -> Option<(u64, usize)> {
        let number = *self.people.get(annotator)?.saves.last()?;
        Some((number, self.saves.get(&number)?.item))
    }

    pub(crate) fn has_finished(&self, annotator: &str, item: usize) -> bool {
        self.last_save(annotator, item).is_some_and(|saved| saved.finished)
    }

    /// The people who have finished an item, with their labels.
    pub(crate) fn finished(&self, item: usize) -> impl Iterator<Item = (&str, &SolutionLabel)> {
        let people = self.items[item].saves.keys();
        let saves = people.filter_map(move |annotator| self.last_save(annotator, item));
        saves.filter(|saved| saved.finished).map(|saved| (saved.annotator.as_str(), &saved.label))
    }

    pub(crate) fn revision(&self, annotator: &str, item: usize) -> u64 {
        self.items[item].revisions.get(annotator).copied().unwrap_or(0)
    }

    pub(crate) fn answered(&self, annotator: &str, request: &str) -> Option<(usize, u64)> {
        self.people.get(annotator)?.requests.get(request).copied()
    }

    pub(crate) fn has_seen(&self, annotator: &str, item: usize) -> bool {
        self.items[item].shown.contains(annotator)
    }

    /// Everybody who has done anything.
    pub(crate) fn people(&self) -> impl Iterator<Item = &str> {
        self.people.keys().map(String::as_str)
    }
}
