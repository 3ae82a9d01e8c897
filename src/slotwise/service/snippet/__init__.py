"""The script `/slotwise.js` that fills lists of links on other people's pages."""
