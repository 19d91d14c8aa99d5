module sliceworks.dev/provider-rules

go 1.24
