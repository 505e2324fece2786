"""The index of the event store: one file of range bitmaps per data file, and a synopsis of them all.

    layout    which columns are indexed
    codes     values as integers that keep their order, and back
    packed    lists of integers in few bits            bitmap   range bitmaps: bit slices of codes
    block     a row group as clusters of one type      file     the index of one data file
    ranges    tests as ranges of codes                 synopsis facts about all clusters
    lookup    finds the events that pass tests, and their values; search is its inner loop

After ACER (paper 000 §3); `docs/store-format.md` describes the files.
"""
