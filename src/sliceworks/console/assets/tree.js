// Draws nodes that the server sends. Vue compares them with the last ones and touches only what differs.
import { h } from "vue";

const PAUSE = 200; // milliseconds after the last letter of a search

// What a person is typing stays, whatever the server has heard of it so far.
const kept = (attributes) => {
  const held = document.activeElement;
  const same = attributes["data-field"] && held?.dataset?.field === attributes["data-field"];
  return same ? { ...attributes, value: held.value } : attributes;
};

const draw = (node) => {
  if (typeof node === "string") return node;
  const [tag, attributes, ...children] = node;
  return h(tag, kept(attributes), children.map(draw));
};

export default {
  props: { tree: { type: Array, default: () => [] } },
  render() {
    const hears = { onClick: this.click, onKeydown: this.key, onChange: this.change, onInput: this.input };
    return h("div", { class: "tree", ...hears }, this.tree.map(draw));
  },
  methods: {
    click(event) {
      const pressed = event.target.closest("[data-act]");
      if (pressed && !pressed.disabled) this.$emit("act", pressed.dataset.act);
    },
    // Parts of drawings are no buttons of the browser's own.
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
