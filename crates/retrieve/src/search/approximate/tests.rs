//! Against exact search, on vectors that come in clusters as those of texts do.

use std::collections::HashSet;
use std::sync::Mutex;

use super::*;
use gradus_kernels::vectors::normalize;

const DIMENSION: usize = 32;

/// Vectors around a hundred centers.
fn clustered(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        let mut sum = 0.0;
        for _ in 0..4 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            sum += (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5;
        }
        sum
    };
    let center =
        |cluster: usize, at: usize| (((cluster * 7919 + at * 104_729) % 1013) as f32 / 1013.0 - 0.5) * 2.0;
    let mut values = Vec::new();
    for row in 0..count {
        let mut vector: Vec<f32> = (0..DIMENSION).map(|at| center(row % 100, at) + 0.6 * next()).collect();
        normalize(&mut vector);
        values.extend(vector);
    }
    values
}

fn graph(rows: &[f32]) -> Approximate {
    Approximate::build(rows, DIMENSION, &Settings::default()).unwrap()
}

fn all(_: usize, _: u32, _: f32) -> bool {
    true
}

/// The share of what exact search finds, and every hit is one that exact search could give.
fn recall(
    rows: &[f32],
    queries: &[f32],
    found: &[Vec<Hit>],
    k: usize,
    keep: impl Fn(usize, u32, f32) -> bool + Sync,
) -> f64 {
    let exact = top_k(rows, DIMENSION, queries, k, &keep);
    let mut common = 0;
    for (query, (found, exact)) in found.iter().zip(&exact).enumerate() {
        assert_eq!(found.len(), exact.len());
        assert!(found.is_sorted_by(
            |a, b| a.similarity > b.similarity || (a.similarity == b.similarity && a.row < b.row)
        ));
        let known: HashSet<u32> = exact.iter().map(|hit| hit.row).collect();
        common += found.iter().filter(|hit| known.contains(&hit.row)).count();
        for hit in found {
            let similarity = dot(
                &rows[hit.row as usize * DIMENSION..][..DIMENSION],
                &queries[query * DIMENSION..][..DIMENSION],
            );
            assert_eq!(hit.similarity.to_bits(), similarity.to_bits());
            assert!(keep(query, hit.row, hit.similarity));
        }
    }
    common as f64 / exact.iter().map(Vec::len).sum::<usize>() as f64
}

#[test]
fn finds_what_exact_search_finds_also_from_a_file() {
    let (rows, queries) = (clustered(6000, 1), clustered(200, 2));
    let built = graph(&rows);
    let found = built.search(&rows, &queries, 10, all);
    let share = recall(&rows, &queries, &found, 10, all);
    assert!(share >= 0.98, "recall is {share}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.graph");
    built.save(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), built.bytes() as u64);
    let opened = Approximate::open(&path).unwrap();
    assert_eq!((opened.rows(), opened.dimension(), opened.settings()), (6000, DIMENSION, built.settings()));
    assert_eq!(opened.search(&rows, &queries, 10, all), found);
    // A file is replaced while another reads it.
    graph(&rows[..4000 * DIMENSION]).save(&path).unwrap();
    assert_eq!(opened.search(&rows, &queries, 10, all), found);
    assert_eq!(Approximate::open(&path).unwrap().rows(), 4000);
}

#[test]
fn what_is_not_kept_makes_room_and_is_asked_about_once() {
    let (rows, queries) = (clustered(6000, 1), clustered(40, 2));
    let graph = graph(&rows);
    // Few, half and almost all refused: the graph, the graph again with more, all rows.
    for (refused, of) in [(1, 10), (1, 2), (99, 100)] {
        let keep = |query: usize, row: u32, _: f32| (row as usize + query) % of >= refused;
        let asked = Mutex::new(HashSet::new());
        let found = graph.search(&rows, &queries, 10, |query, row, similarity| {
            assert!(asked.lock().unwrap().insert((query, row)), "asked twice about {row}");
            keep(query, row, similarity)
        });
        let share = recall(&rows, &queries, &found, 10, keep);
        assert!(share >= 0.98, "recall is {share} where {refused} of {of} are refused");
    }
    assert_eq!(graph.search(&rows, &queries, 10, |_, _, _| false), vec![vec![]; 40]);
}

#[test]
fn little_or_nothing_is_searched_exactly() {
    let (rows, queries) = (clustered(50, 1), clustered(3, 2));
    let nothing = graph(&[]);
    assert_eq!(nothing.search(&[], &queries, 5, all), vec![vec![]; 3]);
    let few = graph(&rows);
    assert_eq!(few.search(&rows, &queries, 80, all), top_k(&rows, DIMENSION, &queries, 80, all));
    assert_eq!(few.search(&rows, &queries, 0, all), vec![vec![]; 3]);
    assert_eq!(few.search(&rows, &[], 5, all), Vec::<Vec<Hit>>::new());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nothing.graph");
    nothing.save(&path).unwrap();
    assert_eq!(Approximate::open(&path).unwrap().search(&[], &queries, 5, all), vec![vec![]; 3]);
}

#[test]
fn copies_of_one_vector_are_found_by_their_row() {
    let rows: Vec<f32> = clustered(1, 3).repeat(3000);
    let found = graph(&rows).search(&rows, &rows[..DIMENSION], 10, all);
    assert_eq!(found[0].len(), 10);
    assert!(found[0].is_sorted_by_key(|hit| hit.row));
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.graph");
    let refuse = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let message = Approximate::open(&path).unwrap_err().to_string();
        message.rsplit('/').next().unwrap().to_owned()
    };
    assert!(Approximate::open(&path).unwrap_err().to_string().contains("steps.graph"));
    graph(&clustered(500, 1)).save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(refuse(b""), "steps.graph: is no index: its header cannot be read; build the index again");
    assert_eq!(
        refuse(&[b'x'; 5000]),
        "steps.graph: is no index: its header cannot be read; build the index again"
    );
    assert!(refuse(&whole[..whole.len() - 1]).contains("it was cut off"));
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(refuse(&damaged).contains("its checksum does not match"));
}

/// A checksum says only that nothing was changed by accident: USearch would read wherever such a graph leads.
#[test]
fn a_graph_that_leads_out_of_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.graph");
    graph(&clustered(500, 1)).save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let vectors = file::HEADER + 8 + 500 * DIMENSION;
    let levels = vectors + 64 + 5 * 8;
    let first = levels + 500 * 2;
    let changed = |place: usize, byte: u8| {
        let mut graph = whole.clone();
        assert_ne!(std::mem::replace(&mut graph[place], byte), byte, "byte {place}");
        let (head, body) = graph.split_at_mut(file::HEADER);
        let mut header: serde_json::Value = serde_json::from_slice(head).unwrap();
        header["blake3"] = blake3::hash(body).to_hex().as_str().into();
        let header = header.to_string();
        head.fill(b' ');
        head[..header.len()].copy_from_slice(header.as_bytes());
        std::fs::write(&path, graph).unwrap();
        Approximate::open(&path)
    };
    for (what, place) in [
        ("columns", file::HEADER + 4),
        ("scalar", vectors + 14),
        ("dimension", vectors + 33),
        ("rows", vectors + 64),
        ("connectivity", vectors + 64 + 8),
        ("entry", vectors + 64 + 4 * 8 + 3),
        ("level", levels + 1),
        ("key", first + 1),
        ("own level", first + 8),
        ("count", first + 10 + 3),
        ("neighbor", first + 10 + 4 + 3),
    ] {
        let said = changed(place, 0xee).unwrap_err().to_string();
        assert!(said.contains("its entries make no sense"), "{what}: {said}");
    }
    changed(file::HEADER + 8, 0x55).unwrap();
}

#[test]
fn what_is_no_number_and_settings_without_sense_are_refused() {
    let refuse =
        |rows: &[f32], settings: Settings| Approximate::build(rows, 2, &settings).unwrap_err().to_string();
    assert!(refuse(&[1.0, f32::NAN], Settings::default()).contains("no number"));
    let message = refuse(&[1.0, 0.0], Settings { connectivity: 0, ..Settings::default() });
    assert_eq!(message, "connectivity is 0: expected 2 to 1048576");
}
