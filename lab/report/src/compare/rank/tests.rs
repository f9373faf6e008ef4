use super::*;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-3
}

#[test]
fn all_higher_is_one_choice_of_all() {
    assert!(near(higher_p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 1.0 / 20.0));
    assert_eq!(higher_p(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]), 1.0);
    assert!(near(least_p(3, 3), 1.0 / 20.0) && near(least_p(7, 7), 1.0 / 3_432.0));
}

#[test]
fn equal_sides_say_nothing() {
    let same = [5.0; 7];
    assert_eq!(higher_p(&same, &same), 1.0);
    assert_eq!(ratio(&same, &same, 0.95), Some((1.0, 1.0, 1.0)));
    assert_eq!(higher_p(&[], &same), 1.0);
    assert_eq!(ratio(&same, &[0.0], 0.95), None);
}

#[test]
fn a_known_example_with_its_p() {
    // Of 20 choices of 3 ranks out of 6, the choice 2 + 3 + 5 = 10 and 11 others reach 10.
    let (a, b) = ([1.0, 4.0, 6.0], [2.0, 3.0, 5.0]);
    let sums: Vec<u32> = (1..=6u32)
        .flat_map(|x| (x + 1..=6).flat_map(move |y| (y + 1..=6).map(move |z| x + y + z)))
        .collect();
    let at_least = sums.iter().filter(|&&sum| sum >= 10).count();
    assert!(near(higher_p(&a, &b), at_least as f64 / 20.0));
}

#[test]
fn many_values_agree_with_few() {
    let side = |shift: f64, number: u32| -> Vec<f64> {
        (0..number).map(|n| 100.0 + shift + f64::from(n * 7 % 13)).collect()
    };
    let (few, many) =
        (higher_p(&side(0.0, 20), &side(2.0, 20)), higher_p(&side(0.0, 21), &side(2.0, 21)));
    assert!(few < 0.15 && many < 0.15 && (few - many).abs() < 0.03, "{few} {many}");
    let (_, low, high) = ratio(&side(0.0, 60), &side(0.0, 60), 0.95).expect("both are positive");
    assert!(low < 1.0 && high > 1.0 && low > 0.95 && high < 1.05, "{low} {high}");
}

#[test]
fn the_interval_is_that_of_the_tables() {
    // Published tables, level 0.05, both sides: 8 is critical for 7 against 7, 0 for 4 against 4.
    assert_eq!(cut(7, 7, 0.025), 8);
    assert_eq!(cut(4, 4, 0.025), 0);
    assert_eq!(cut(3, 3, 0.025), 0);
}
