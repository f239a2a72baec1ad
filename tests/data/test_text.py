"""How text becomes tokens: AG's news, and csv files of one's own."""

import gzip

import numpy as np
import pytest

from fedvls.data import agnews, load_dataset
from fedvls.data.text import encode, tokenize
from fedvls.errors import DataError, UsageError


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Wall St. Bears Claw Back", ["wall", "st", ".", "bears", "claw", "back"]),
        ("don't (really)!?", ["don", "'", "t", "(", "really", ")", "!", "?"]),
        ('"quoted"; a-b: c_d/e $5', ["quoted", "a", "b", "c", "d", "e", "5"]),
        ("Today #39;s price is  #36;10", ["today", "'", "s", "price", "is", "10"]),
        ("AT&amp;T &lt;b&gt;bold&lt;/b&gt; line<br />next", ["at", "t", "bold", "line", "next"]),
        ("a < b and c > d", ["a", "b", "and", "c", "d"]),
        ("second\\team of rocketeers", ["second", "team", "of", "rocketeers"]),
        ("Größe 東京 #1;", ["größe", "東京", "1"]),
        ("", []),
        (" \t\n--", []),
    ],
)
def test_words_and_marks_are_told_apart(text, tokens):
    assert tokenize(text) == tokens


def test_numbers_go_by_frequency_then_alphabet_after_the_special_ones():
    # b three times, then a and c twice each, then d: numbers 3, 4, 5, 6
    x_train, x_test, size = encode(["b a c", "b c a d", "b"], ["d z b"], length=6, max_vocabulary=None)
    assert x_train.tolist() == [[2, 3, 4, 5, 0, 0], [2, 3, 5, 4, 6, 0], [2, 3, 0, 0, 0, 0]]
    assert x_test.tolist() == [[2, 6, 1, 3, 0, 0]]
    assert size == 7
    assert x_train.dtype == x_test.dtype == np.int32


def test_rare_words_become_unknown_in_a_smaller_vocabulary():
    x_train, x_test, size = encode(["b a c", "b c a d", "b"], ["d z b"], length=6, max_vocabulary=5)
    assert size == 5
    assert x_train.tolist() == [[2, 3, 4, 1, 0, 0], [2, 3, 1, 4, 1, 0], [2, 3, 0, 0, 0, 0]]
    assert x_test.tolist() == [[2, 1, 1, 3, 0, 0]]


def test_long_texts_are_cut_and_empty_ones_keep_their_first_token():
    x_train, _, _ = encode(["a b c d", ""], ["a"], length=3, max_vocabulary=None)
    assert x_train.tolist() == [[2, 3, 4], [2, 0, 0]]


def test_words_of_the_test_text_do_not_enter_the_vocabulary():
    _, x_test, size = encode(["a"], ["b c d e"], length=4, max_vocabulary=None)
    assert size == 4
    assert x_test.tolist() == [[2, 1, 1, 1]]


@pytest.mark.parametrize(("length", "most", "words"), [(1, None, "length = 1"), (5, 3, "max_vocabulary = 3")])
def test_impossible_sizes_are_told(length, most, words):
    with pytest.raises(UsageError, match=words):
        encode(["a"], ["a"], length, most)


NEWS = {
    "train.csv": '"3","Wall St. ""Bears""","Short-sellers, again"\n"1","War","Peace\nand war"\n"4","Chips","  "\n',
    "test.csv": '"2","Game","won"\n"3","Bears","again"\n',
}


def write(folder, files=NEWS, packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        content = text.encode()
        (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("place", ["ag-news", "ag_news_csv", "AG_NEWS", "."])
@pytest.mark.parametrize("packed", [True, False])
def test_news_are_read_from_every_layout(tmp_path, place, packed):
    write(tmp_path / place, packed=packed)
    data = load_dataset("ag-news", data_dir=tmp_path)
    assert data.x_train.shape == (3, 200)
    assert data.x_train.dtype == np.int32
    assert data.y_train.tolist() == [2, 0, 3]
    assert data.y_test.tolist() == [1, 2]
    assert data.class_names == ("World", "Sports", "Business", "Sci/Tech")
    # wall st . bears short sellers , again | war peace and war | chips: "war" twice, the others once
    assert data.vocabulary == 3 + 12
    assert data.mean is data.std is None
    # of the training words only ",", "." sort before "again", and war is the most frequent
    assert data.x_train[1, :6].tolist() == [2, 3, data.x_train[1, 2], data.x_train[1, 3], 3, 0]
    assert data.x_test[0, :4].tolist() == [2, 1, 1, 0]
    assert data.x_test[1, :4].tolist() == [2, data.x_train[0, 4], data.x_train[0, 8], 0]
    assert data.spec == {"name": "ag-news", "length": 200, "data_dir": str(tmp_path)}


def test_a_line_of_column_names_is_passed_over(tmp_path):
    write(tmp_path, {name: "Class Index,Title,Description\n" + text for name, text in NEWS.items()})
    assert len(load_dataset("ag-news", data_dir=tmp_path).y_train) == 3


def test_length_and_vocabulary_can_be_chosen(tmp_path):
    write(tmp_path)
    data = load_dataset("ag-news", data_dir=tmp_path, length="5", max_vocabulary="6")
    assert data.x_train.shape == (3, 5)
    assert data.vocabulary == 6
    assert load_dataset(**data.spec).fingerprint == data.fingerprint
    assert load_dataset("ag-news", data_dir=tmp_path).fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"5","a","b"\n', r"train\.csv line 1: class '5' is not one of 1, 2, 3, 4"),
        ('"1","a","b"\n"0","a","b"\n', r"train\.csv line 2: class '0'"),
        ('"1","a"\n', "line 1 has 2 cells: expected class, title and description"),
        ('"1","a","b","c"\n', "line 1 has 4 cells"),
        ('"1","a","b\n', "line 1: unexpected end of data"),
        ('"1","a" x,"b"\n', "line 1: "),
        ("", "has no rows"),
        ("class,title,text\n", "has no rows"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path, text, words):
    write(tmp_path, {**NEWS, "train.csv": text})
    with pytest.raises(DataError, match=words) as caught:
        load_dataset("ag-news", data_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_told(tmp_path):
    write(tmp_path)
    (tmp_path / "test.csv").write_bytes(b'"1","\xff\xfe","b"\n')
    with pytest.raises(DataError, match=r"test\.csv is not UTF-8 text"):
        load_dataset("ag-news", data_dir=tmp_path)
    (tmp_path / "test.csv").write_bytes(gzip.compress(NEWS["test.csv"].encode())[:-5])
    with pytest.raises(DataError, match=r"test\.csv is damaged"):
        load_dataset("ag-news", data_dir=tmp_path)


def test_tokens_are_not_scaled(tmp_path):
    write(tmp_path)
    with pytest.raises(UsageError, match="tokens are not scaled: leave out mean and std"):
        load_dataset("ag-news", data_dir=tmp_path, mean=0.5, std=0.5)


def test_what_is_missing_offline_is_named_with_its_place(tmp_path, offline):
    write(tmp_path / "ag-news", {"test.csv": NEWS["test.csv"]})
    with pytest.raises(DataError) as caught:
        load_dataset("ag-news", data_dir=tmp_path)
    assert f": put train.csv into {tmp_path}/ag-news or name their folder with --data-dir" in str(caught.value)


def test_what_is_downloaded_is_read_from_where_it_was_put(tmp_path, monkeypatch):
    monkeypatch.setattr(agnews, "fetch", lambda wanted, urls, into, name: write(into, {f: NEWS[f] for f in wanted}))
    assert load_dataset("ag-news", data_dir=tmp_path).y_train.tolist() == [2, 0, 3]


ROWS = [(f"{word} number {number}", label) for label, word in enumerate(("apple", "pear")) for number in range(10)]


def table(rows, head="", order=(0, 1)):
    return head + "".join(",".join(str(row[at]) for at in order) + "\n" for row in rows)


def test_a_csv_of_text_and_label_is_split_per_class(tmp_path):
    (tmp_path / "fruit.csv").write_text(table(ROWS))
    data = load_dataset(str(tmp_path / "fruit.csv"))
    assert data.name == "fruit"
    assert np.bincount(data.y_train).tolist() == [8, 8]
    assert np.bincount(data.y_test).tolist() == [2, 2]
    assert data.class_names == ("0", "1")
    assert data.spec == {"name": str(tmp_path / "fruit.csv"), "length": 200}
    assert load_dataset(**data.spec).fingerprint == data.fingerprint
    assert load_dataset("csv", path=str(tmp_path / "fruit.csv")).fingerprint == data.fingerprint


def test_the_split_goes_with_the_texts_and_not_with_their_order(tmp_path):
    def tested(name, rows):
        path = tmp_path / name
        path.write_text(table(rows))
        data = load_dataset(str(path))
        return {tuple(row) for row in data.x_test.tolist()}, data.vocabulary

    assert tested("a.csv", ROWS) == tested("b.csv", ROWS[::-1])


@pytest.mark.parametrize("packed", [True, False])
def test_named_columns_may_come_in_any_order_and_among_others(tmp_path, packed):
    rows = [(label, "note, more", text) for text, label in ROWS]
    text = "Label,note,TEXT\n" + "".join(f'{label},"{note}",{words}\n' for label, note, words in rows)
    path = tmp_path / ("fruit.csv.gz" if packed else "fruit.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    (tmp_path / "plain.csv").write_text(table(ROWS))
    named, plain = load_dataset(str(path)), load_dataset(str(tmp_path / "plain.csv"))
    assert named.name == "fruit"
    assert named.fingerprint == plain.fingerprint


def test_words_as_labels_are_numbered_by_the_alphabet_and_numbers_by_size(tmp_path):
    for labels, names in ((("pear", "apple"), ("apple", "pear")), ((10, 9), ("9", "10"))):
        path = tmp_path / f"{labels[0]}.csv"
        path.write_text(table([(text, labels[label]) for text, label in ROWS]))
        assert load_dataset(str(path)).class_names == names


def test_a_folder_of_train_and_test_files_is_used_as_it_is(tmp_path):
    write(tmp_path, {"train.csv": table(ROWS), "test.csv": table(ROWS[:1] + ROWS[-3:])}, packed=True)
    data = load_dataset(str(tmp_path))
    assert len(data.y_train) == 20
    assert data.y_test.tolist() == [0, 1, 1, 1]
    assert data.name == tmp_path.name


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.csv": "one cell\n"}, r"a\.csv line 1 has 1 cells: expected a text and a label"),
        ({"a.csv": "text,label\n"}, "has no rows below the names of its columns"),
        ({"a.csv": "x,0\ny,\n"}, r"a\.csv line 2 has no label"),
        ({"a.csv": "review,mood\n" + table(ROWS)}, "line 1: label 'mood' occurs nowhere else"),
        ({"a.csv": "text,label\nx,0\ny,1\n"}, "no class has two samples"),
        ({"a.csv": "x,0\ny,0\n"}, "classes = 1: a classifier needs at least 2"),
    ],
)
def test_what_is_wrong_with_a_csv_is_told(tmp_path, files, words):
    write(tmp_path, files)
    with pytest.raises((DataError, UsageError), match=words) as caught:
        load_dataset(str(tmp_path / "a.csv"))
    assert str(tmp_path / "a.csv") in str(caught.value)


def test_a_label_that_training_lacks_is_told(tmp_path):
    write(tmp_path, {"train.csv": table(ROWS), "test.csv": "text,label\nx,0\ny,7\n"})
    with pytest.raises(DataError, match=r"test\.csv line 3: label '7' is not among those of the training set"):
        load_dataset(str(tmp_path))


def test_a_csv_that_is_not_there_and_half_a_folder_are_told(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv does not exist: name a csv file"):
        load_dataset(str(tmp_path / "none.csv"))
    write(tmp_path, {"train.csv": table(ROWS)})
    with pytest.raises(DataError, match=r"must hold train\.csv and test\.csv"):
        load_dataset(str(tmp_path))
