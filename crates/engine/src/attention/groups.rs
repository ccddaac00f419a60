//! Which segments share keys, and how groups of them are padded to few shapes.

use std::collections::BTreeMap;
use std::ops::Range;

use gradus_kernels::attention::Segment;

/// Rows and key slots that belong together.
pub(crate) struct Group {
    pub(crate) segments: Vec<usize>,
    pub(crate) keys: Vec<usize>,
}

/// Segments that share keys, each set with the union of its keys, sorted.
///
/// Works on ranges and not on keys: a pass has thousands of times more of the latter, and generation plans anew for every token.
pub(crate) fn connected(segments: &[Segment]) -> Vec<Group> {
    let ranges = |number: usize| segments[number].keys.iter().filter(|keys| !keys.is_empty());
    let mut sorted: Vec<(&Range<usize>, usize)> =
        (0..segments.len()).flat_map(|number| ranges(number).map(move |keys| (keys, number))).collect();
    sorted.sort_unstable_by_key(|(keys, number)| (keys.start, *number));

    let mut parent: Vec<usize> = (0..segments.len()).collect();
    let mut reached: Option<(usize, usize)> = None;
    for (keys, number) in sorted {
        reached = match reached {
            Some((end, other)) if keys.start < end => {
                let (a, b) = (root(&mut parent, number), root(&mut parent, other));
                parent[b.max(a)] = b.min(a);
                Some((end.max(keys.end), other))
            }
            _ => Some((keys.end, number)),
        };
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in 0..segments.len() {
        groups.entry(root(&mut parent, number)).or_default().push(number);
    }
    let group = |members: Vec<usize>| Group {
        keys: union(members.iter().copied().flat_map(ranges)),
        segments: members,
    };
    groups.into_values().map(group).collect()
}

/// The set that a segment belongs to, by its first member.
fn root(parent: &mut [usize], mut node: usize) -> usize {
    while parent[node] != node {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    node
}

/// All keys of some ranges, sorted, each once.
fn union<'a>(ranges: impl Iterator<Item = &'a Range<usize>>) -> Vec<usize> {
    let mut ranges: Vec<&Range<usize>> = ranges.collect();
    ranges.sort_unstable_by_key(|keys| keys.start);
    let mut keys: Vec<usize> = Vec::new();
    for range in ranges {
        let start = keys.last().map_or(range.start, |last| range.start.max(last + 1));
        keys.extend(start..range.end);
    }
    keys
}

/// Rounded up so that few shapes occur: to 8 up to 64, then to an eighth of the next power of two.
pub(crate) fn padded(count: usize) -> usize {
    let unit = if count <= 1 {
        1
    } else if count <= 64 {
        8
    } else {
        count.next_power_of_two() / 8
    };
    count.next_multiple_of(unit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Segments whose keys are runs anywhere, of any order; some share, some touch, some are empty.
    fn segments() -> impl Strategy<Value = Vec<Segment>> {
        let run = (0usize..60, 0usize..8).prop_map(|(start, length)| start..start + length);
        prop::collection::vec(prop::collection::vec(run, 0..4), 0..12).prop_map(|all| {
            let segment = |(row, keys)| Segment { rows: row..row + 1, keys };
            all.into_iter().enumerate().map(segment).collect()
        })
    }

    proptest! {
        /// Against sets of single keys that are joined until no two overlap.
        #[test]
        fn segments_that_share_a_key_are_one_group(segments in segments()) {
            let mut expected: Vec<(BTreeSet<usize>, BTreeSet<usize>)> = Vec::new();
            for (number, segment) in segments.iter().enumerate() {
                let mut joined = (BTreeSet::from([number]), segment.keys.iter().cloned().flatten().collect::<BTreeSet<_>>());
                expected.retain(|(members, keys)| {
                    let apart = keys.is_disjoint(&joined.1);
                    if !apart {
                        joined.0.extend(members);
                        joined.1.extend(keys);
                    }
                    apart
                });
                expected.push(joined);
            }
            expected.sort_by_key(|(members, _)| members.first().copied());
            let found: Vec<_> = connected(&segments)
                .into_iter()
                .map(|group| (group.segments.into_iter().collect(), group.keys.into_iter().collect()))
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn a_groups_keys_are_sorted_and_each_once(segments in segments()) {
            for group in connected(&segments) {
                prop_assert!(group.keys.is_sorted_by(|a, b| a < b));
            }
        }
    }
}
