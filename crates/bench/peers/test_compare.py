"""What the comparison computes itself. `make bench-peers` runs these first."""

import unittest

import compare
import report
from counter import Tally, item_bytes, read_units, write_units
from systems import SYSTEMS


class Computed(unittest.TestCase):
    def test_an_item_has_the_bytes_of_its_names_and_values(self):
        # 2 + 3, 1 + 4 (five digits), 1 + 1, 1 + 3 (decoded), 1 + 3 + 1 + 2 (a list of "ab"), 1 + 3 + 1 + 1 + 1.
        item = {"pk": {"S": "abc"}, "n": {"N": "-12.345"}, "t": {"BOOL": True}, "b": {"B": "AQID"},
                "l": {"L": [{"S": "ab"}]}, "m": {"M": {"x": {"NULL": True}}}}
        self.assertEqual(item_bytes(item), 5 + 5 + 2 + 4 + 7 + 7)
        self.assertEqual(item_bytes({"s": {"SS": ["a", "bc"]}, "u": {"NS": ["1", "23"]}}), 4 + 5)

    def test_a_read_takes_a_unit_for_each_four_kib_and_half_of_that_if_it_may_be_stale(self):
        answer = {"Item": {"a": {"S": "x" * 4_096}}}
        self.assertEqual(read_units("GetItem", {"ConsistentRead": True}, answer), 2)
        self.assertEqual(read_units("GetItem", {}, answer), 1)
        self.assertEqual(read_units("GetItem", {}, {}), 0.5)
        item = {"a": {"S": "x" * 2_999}}
        self.assertEqual(read_units("Query", {}, {"Items": [item] * 3}), 1.5)
        request = {"RequestItems": {"t": {"ConsistentRead": True}}}
        self.assertEqual(read_units("BatchGetItem", request, {"Responses": {"t": [item, item]}}), 2)
        self.assertEqual(read_units("TransactGetItems", {}, {"Responses": [{"Item": item}]}), 2)

    def test_a_write_takes_what_the_answer_says_or_what_was_sent_if_it_was_refused(self):
        request = {"Item": {"a": {"S": "x" * 1_024}}}
        self.assertEqual(write_units(request, {"ConsumedCapacity": {"CapacityUnits": 7}}), 7)
        self.assertEqual(write_units(request, {"ConsumedCapacity": [{"CapacityUnits": 4}, {"CapacityUnits": 2}]}), 6)
        self.assertEqual(write_units(request, {"__type": "ConditionalCheckFailedException"}), 2)
        self.assertEqual(write_units({}, {}), 1)

    def test_calls_count_where_they_went_and_receives_that_brought_nothing_apart(self):
        tally = Tally()
        for answer in ({}, {"Messages": []}, {"Messages": [{}]}):
            tally.add("AmazonSQS", "ReceiveMessage", {}, answer, 10)
        tally.add("DynamoDB_20120810", "PutItem", {}, {"ConsumedCapacity": {"CapacityUnits": 3}}, 10)
        tally.add("DynamoDB_20120810", "Query", {"FilterExpression": "a"}, {"Items": []}, 10)
        operations = {"PutItem": 1, "Query": 1, "ReceiveMessage": 1}
        self.assertEqual(vars(tally), {"dynamo": 2, "sqs": 1, "empty": 2, "read_units": 0.5, "write_units": 3,
                                       "bytes": 30, "operations": operations, "unsure": 1})
        both = tally + tally
        self.assertEqual((both.dynamo, both.bytes, both.operations["Query"]), (4, 60, 2))

    def test_a_step_counts_once_however_often_it_was_repeated(self):
        lines = ["a begins 0", "a begins 0", "a begins 0", "a ends 0", "b begins 0", "a begins 1", "a begins 1"]
        self.assertEqual((compare.repeated(lines, "begins"), compare.repeated(lines, "ends")), (2, 0))

    def test_the_calls_of_a_row_are_found_with_and_without_errors(self):
        rows = [" 97.24    0.034567          34       350           fdatasync",
                "  2.76    0.000100          50         2         1 fsync",
                "100.00    0.034667                   352         1 total",
                "% time     seconds  usecs/call     calls    errors syscall", ""]
        self.assertEqual(compare.disk_calls("\n".join(rows)), 352)

    def test_the_best_durable_system_stands_out_and_what_was_not_measured_says_so(self):
        longhaul, restate, dbos, rmcp = (SYSTEMS[name] for name in ("longhaul", "restate", "dbos", "rmcp"))
        table = report.Table([longhaul, restate, dbos, rmcp], "Lives", "How many.", ["at once, /s", "ms"])
        rows = [(longhaul, 100, 2), (longhaul, 300, 4), (restate, 150, 1), (rmcp, 900, 0.5), (rmcp, 900, 0.5)]
        for system, *values in rows:
            for column, value in enumerate(values):
                table.add(system, column, value)
        table.explain(dbos, "it could not be started.")
        text = table.markdown()
        for row in ("| Longhaul, task | **200** (100 to 300) | 3.00 (2.00 to 4.00) |", "| Restate | 150 | **1.00** |",
                    "| rmcp TaskManager | 900 | 0.50 |"):
            self.assertIn(row, text)
        self.assertTrue(text.endswith("\nDBOS, SQLite as shipped: it could not be started.\n"), text)
        self.assertNotIn("| DBOS", text)

    def test_a_reason_of_several_tables_is_said_once(self):
        longhaul, dbos = SYSTEMS["longhaul"], SYSTEMS["dbos"]
        tables = [report.Table([longhaul, dbos], title, "About.", ["ms"]) for title in ("One", "Two", "Three")]
        for table in tables[:2]:
            table.explain(dbos, "it has no journal.")
        tables[2].explain(dbos, "it failed.")
        repeated = report.repeated_reasons(tables)
        self.assertEqual(repeated, {(dbos.name, "it has no journal.")})
        self.assertEqual([": it" in table.markdown(repeated) for table in tables], [False, False, True])

    def test_a_picture_names_each_system_that_was_measured_and_its_figure(self):
        svg = report.picture("16 at a time", [(SYSTEMS["longhaul"], 2_000), (SYSTEMS["restate"], 700)])
        for text in ("Longhaul, task", ">2000<", ">Restate<", ">700<", "16 at a time"):
            self.assertIn(text, svg)


if __name__ == "__main__":
    unittest.main()
