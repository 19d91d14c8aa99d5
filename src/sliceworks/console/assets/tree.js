// Renders nodes sent by the server. Vue updates only what differs.
import { h } from "vue";

const PAUSE = 200; // milliseconds after the last keystroke in a search box

// Keep the value of the focused field, which the server may not have received yet.
const keepFocusedValue = (attributes) => {
  const focused = document.activeElement;
  const same = attributes["data-field"] && focused?.dataset?.field === attributes["data-field"];
  return same ? { ...attributes, value: focused.value } : attributes;
};

const draw = (node) => {
  if (typeof node === "string") return node;
  const [tag, attributes, ...children] = node;
  return h(tag, keepFocusedValue(attributes), children.map(draw));
};

export default {
  props: { tree: { type: Array, default: () => [] } },
  render() {
    const listeners = { onClick: this.click, onKeydown: this.key, onChange: this.change, onInput: this.input };
    return h("div", { class: "tree", ...listeners }, this.tree.map(draw));
  },
  methods: {
    click(event) {
      const button = event.target.closest("[data-act]");
      if (button && !button.disabled) this.$emit("act", button.dataset.act);
    },
    // SVG elements do not handle keys like native buttons.
    key(event) {
      if ((event.key !== "Enter" && event.key !== " ") || !event.target.matches('[role="button"][data-act]')) return;
      event.preventDefault();
      this.$emit("act", event.target.dataset.act);
    },
    change(event) {
      const field = event.target.closest("[data-field]");
      if (field) this.$emit("field", [field.dataset.field, field.value]);
    },
    input(event) {
      if (event.target.type !== "search") return;
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.change(event), PAUSE);
    },
  },
};
